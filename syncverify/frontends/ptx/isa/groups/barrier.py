"""Execution barriers, fences and mbarriers."""

ROWS = """
@chapter Parallel Synchronization and Communication Instructions: barriers
@effect barrier
bar.sync ; s:u32 s:u32? ; mask=aligned
bar.cta.sync ; s:u32 s:u32? ; ptx=7.8 mask=aligned
bar.arrive ; s:u32 s:u32 ; mask=aligned
bar.cta.arrive ; s:u32 s:u32 ; ptx=7.8 mask=aligned
bar.red.popc u32 ; d:u32 s:u32 s:u32? q ; mask=aligned
bar.red.and pred ; p s:u32 s:u32? q ; mask=aligned
bar.red.or pred ; p s:u32 s:u32? q ; mask=aligned
bar.cta.red.popc u32 ; d:u32 s:u32 s:u32? q ; ptx=7.8 mask=aligned
bar.cta.red.and pred ; p s:u32 s:u32? q ; ptx=7.8 mask=aligned
bar.cta.red.or pred ; p s:u32 s:u32? q ; ptx=7.8 mask=aligned
barrier.sync aligned? ; s:u32 s:u32? ; ptx=6.0
barrier.cta.sync aligned? ; s:u32 s:u32? ; ptx=7.8
barrier.arrive aligned? ; s:u32 s:u32 ; ptx=6.0
barrier.cta.arrive aligned? ; s:u32 s:u32 ; ptx=7.8
barrier.red.popc aligned? u32 ; d:u32 s:u32 s:u32? q ; ptx=6.0
barrier.red.and aligned? pred ; p s:u32 s:u32? q ; ptx=6.0
barrier.red.or aligned? pred ; p s:u32 s:u32? q ; ptx=6.0
barrier.cta.red.popc aligned? u32 ; d:u32 s:u32 s:u32? q ; ptx=7.8
barrier.cta.red.and aligned? pred ; p s:u32 s:u32? q ; ptx=7.8
barrier.cta.red.or aligned? pred ; p s:u32 s:u32? q ; ptx=7.8
bar.warp.sync ; s:u32 ; ptx=6.0 mask=operand
barrier.cluster.arrive SEM:release|relaxed? aligned? ; ; ptx=7.8 arch=90
barrier.cluster.wait SEM:acquire? aligned? ; ; ptx=7.8 arch=90

@chapter Parallel Synchronization and Communication Instructions: membar, fence
@effect fence
fence SEM:sc|acq_rel? SCOPE:cta|gpu|sys ; ; ptx=6.0 arch=70
fence SEM:acquire|release SCOPE:cta|gpu|sys ; ; ptx=8.6 arch=70
fence SEM:sc|acq_rel? SCOPE:cluster ; ; ptx=7.8 arch=90
fence SEM:acquire|release SCOPE:cluster ; ; ptx=8.6 arch=90
fence SEM:acquire sync_restrict::shared::cluster SCOPE:cluster ; ; ptx=8.6 arch=90
fence SEM:release sync_restrict::shared::cta SCOPE:cluster ; ; ptx=8.6 arch=90
fence.mbarrier_init release cluster ; ; ptx=8.0 arch=90
membar LEVEL:cta|gl|sys ;
membar.proxy KIND:alias ; ; ptx=7.5 arch=60
fence.proxy KIND:alias ; ; ptx=7.5 arch=70
fence.proxy KIND:async ; ; ptx=8.0 arch=90
membar.proxy KIND:async ; ; ptx=8.0 arch=90
fence.proxy KIND:async SPACE:global|shared::cta|shared::cluster ; ; ptx=8.0 arch=90
fence.proxy KIND:tensormap::generic SEM:release SCOPE ; ; ptx=8.3 arch=90
fence.proxy KIND:tensormap::generic SEM:acquire SCOPE ; a i ; ptx=8.3 arch=90
fence.proxy KIND:async::generic SEM:acquire RESTRICT:sync_restrict::shared::cluster SCOPE:cluster ; ; ptx=8.6 arch=90
fence.proxy KIND:async::generic SEM:release RESTRICT:sync_restrict::shared::cta SCOPE:cluster ; ; ptx=8.6 arch=90
fence.proxy KIND:async::generic SEM:release RESTRICT:sync_restrict::shared::cluster::read SCOPE:cluster ; ; ptx=9.4 arch=90 !a proxy fence for reads alone is not modelled
fence.proxy KIND:fabric::generic ; * ; ptx=9.3 arch=90 !the fabric proxy is not modelled
fence.proxy KIND:fabric::generic alias ; * ; ptx=9.3 arch=90 !the fabric proxy is not modelled

@chapter Parallel Synchronization and Communication Instructions: mbarrier
@effect mbarrier
mbarrier.init SPACE:SHARED? b64 ; a s:u32 ; ptx=7.0 arch=80
mbarrier.init ~layout:layout::v0 SPACE:SHARED? b64 ; a s:u32 ; ptx=9.3 arch=90
mbarrier.init !layout::v1 SPACE:SHARED? b64 ; a s:u32 ; ptx=9.3 arch=90
mbarrier.check_layout LAYOUT:layout::v0|layout::v1 SPACE:SHARED? b64 ; p a ; ptx=9.3 arch=90 !the layout of an mbarrier is not modelled
mbarrier.inval SPACE:SHARED? b64 ; a ; ptx=7.0 arch=80
mbarrier.expect_tx SPACE:SHARED_ANY? b64 ; a s:u32 ; ptx=8.0 arch=90
mbarrier.expect_tx SEM:relaxed SCOPE:cta|cluster SPACE:SHARED_ANY? b64 ; a s:u32 ; ptx=8.0 arch=90
mbarrier.complete_tx SPACE:SHARED_ANY? b64 ; a s:u32 ; ptx=8.0 arch=90
mbarrier.complete_tx SEM:relaxed SCOPE:cta|cluster SPACE:SHARED_ANY? b64 ; a s:u32 ; ptx=8.0 arch=90
mbarrier.expect_tx SEM:relaxed SCOPE:cluster !MULTICAST:multicast::cluster::32b SPACE:SHARED_ANY? b64 ; * ; ptx=9.4 arch=107f
mbarrier.complete_tx SEM:relaxed SCOPE:cluster !MULTICAST:multicast::cluster::32b SPACE:SHARED_ANY? b64 ; * ; ptx=9.4 arch=107f
mbarrier.arrive SPACE:SHARED? b64 ; u:u64 a ; ptx=7.0 arch=80
mbarrier.arrive SPACE:SHARED? b64 ; u:u64 a s:u32 ; ptx=7.8 arch=90
mbarrier.arrive SEM:release|relaxed SCOPE:cta|cluster SPACE:SHARED? b64 ; u:u64 a s:u32? ; ptx=8.0 arch=90
mbarrier.arrive &SEM:release|relaxed? &SCOPE:cta|cluster? SPACE:shared::cluster b64 ; _ a s:u32? ; ptx=8.0 arch=90
mbarrier.arrive.expect_tx &SEM:release|relaxed? &SCOPE:cta|cluster? SPACE:SHARED? b64 ; u:u64 a s:u32 ; ptx=8.0 arch=90
mbarrier.arrive.expect_tx &SEM:release|relaxed? &SCOPE:cta|cluster? SPACE:shared::cluster b64 ; _ a s:u32 ; ptx=8.0 arch=90
mbarrier.arrive.noComplete SPACE:SHARED? b64 ; u:u64 a s:u32 ; ptx=7.0 arch=80
mbarrier.arrive.noComplete SEM:release SCOPE:cta SPACE:SHARED? b64 ; u:u64 a s:u32 ; ptx=8.0 arch=80
mbarrier.arrive_drop SPACE:SHARED? b64 ; u:u64 a ; ptx=7.0 arch=80
mbarrier.arrive_drop SPACE:SHARED? b64 ; u:u64 a s:u32 ; ptx=7.8 arch=90
mbarrier.arrive_drop SEM:release|relaxed SCOPE:cta|cluster SPACE:SHARED? b64 ; u:u64 a s:u32? ; ptx=8.0 arch=90
mbarrier.arrive_drop &SEM:release|relaxed? &SCOPE:cta|cluster? SPACE:shared::cluster b64 ; _ a s:u32? ; ptx=8.0 arch=90
mbarrier.arrive_drop.expect_tx &SEM:release|relaxed? &SCOPE:cta|cluster? SPACE:SHARED? b64 ; u:u64 a s:u32 ; ptx=8.0 arch=90
mbarrier.arrive_drop.expect_tx &SEM:release|relaxed? &SCOPE:cta|cluster? SPACE:shared::cluster b64 ; _ a s:u32 ; ptx=8.0 arch=90
mbarrier.arrive_drop.noComplete SPACE:SHARED? b64 ; u:u64 a s:u32 ; ptx=7.0 arch=80
mbarrier.arrive_drop.noComplete SEM:release SCOPE:cta SPACE:SHARED? b64 ; u:u64 a s:u32 ; ptx=8.0 arch=80
mbarrier.arrive !MULTICAST:multicast::cluster::32b &SEM:release|relaxed? &SCOPE:cta|cluster? SPACE:SHARED_ANY? b64 ; * ; ptx=9.4 arch=107f
mbarrier.test_wait SPACE:SHARED? b64 ; p a s:u64 ; ptx=7.0 arch=80
mbarrier.test_wait SEM:acquire|relaxed SCOPE:cta|cluster SPACE:SHARED? b64 ; p a s:u64 ; ptx=8.0 arch=90
mbarrier.test_wait.parity SPACE:SHARED? b64 ; p a s:u32 ; ptx=7.1 arch=80
mbarrier.test_wait.parity SEM:acquire|relaxed SCOPE:cta|cluster SPACE:SHARED? b64 ; p a s:u32 ; ptx=8.0 arch=90
mbarrier.try_wait SPACE:SHARED? b64 ; p a s:u64 s:u32? ; ptx=7.8 arch=90
mbarrier.try_wait SEM:acquire|relaxed SCOPE:cta|cluster SPACE:SHARED? b64 ; p a s:u64 s:u32? ; ptx=8.0 arch=90
mbarrier.try_wait.parity SPACE:SHARED? b64 ; p a s:u32 s:u32? ; ptx=7.8 arch=90
mbarrier.try_wait.parity SEM:acquire|relaxed SCOPE:cta|cluster SPACE:SHARED? b64 ; p a s:u32 s:u32? ; ptx=8.0 arch=90
mbarrier.test_wait ~layout:phase_type::primary &SEM:acquire|relaxed? &SCOPE:cta|cluster? SPACE:SHARED? b64 ; p a s:u64 ; ptx=9.3 arch=90
mbarrier.test_wait.parity ~layout:phase_type::primary &SEM:acquire|relaxed? &SCOPE:cta|cluster? SPACE:SHARED? b64 ; p a s:u32 ; ptx=9.3 arch=90
mbarrier.try_wait ~layout:phase_type::primary &SEM:acquire|relaxed? &SCOPE:cta|cluster? SPACE:SHARED? b64 ; p a s:u64 s:u32? ; ptx=9.3 arch=90
mbarrier.try_wait.parity ~layout:phase_type::primary &SEM:acquire|relaxed? &SCOPE:cta|cluster? SPACE:SHARED? b64 ; p a s:u32 s:u32? ; ptx=9.3 arch=90
mbarrier.test_wait.parity !phase_type::conditional &SEM:acquire|relaxed? &SCOPE:cta|cluster? SPACE:SHARED? b64 ; p a s:u32 ; ptx=9.3 arch=90
mbarrier.try_wait.parity !phase_type::conditional &SEM:acquire|relaxed? &SCOPE:cta|cluster? SPACE:SHARED? b64 ; p a s:u32 s:u32? ; ptx=9.3 arch=90
mbarrier.test_wait phase_type::primary &SEM:acquire|relaxed? &SCOPE:cta|cluster? SPACE:SHARED? b64 ; * ; ptx=9.3 arch=90 !reports of an mbarrier are not modelled
mbarrier.test_wait.parity phase_type::primary &SEM:acquire|relaxed? &SCOPE:cta|cluster? SPACE:SHARED? b64 ; * ; ptx=9.3 arch=90 !reports of an mbarrier are not modelled
mbarrier.try_wait phase_type::primary &SEM:acquire|relaxed? &SCOPE:cta|cluster? SPACE:SHARED? b64 ; * ; ptx=9.3 arch=90 !reports of an mbarrier are not modelled
mbarrier.try_wait.parity phase_type::primary &SEM:acquire|relaxed? &SCOPE:cta|cluster? SPACE:SHARED? b64 ; * ; ptx=9.3 arch=90 !reports of an mbarrier are not modelled
mbarrier.pending_count b64 ; d:u32 s:u64 ; ptx=7.0 arch=80
mbarrier.pending_count ~layout:layout::v0 b64 ; d:u32 s:u64 ; ptx=9.3 arch=90
"""
