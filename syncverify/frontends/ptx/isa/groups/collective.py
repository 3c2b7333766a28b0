"""Instructions that the lanes of a warp execute together, on registers."""

ROWS = """
@chapter Data Movement and Conversion Instructions
@effect warp
shfl sync MODE:up|down|bfly|idx b32 ; D:b32 s:b32 s:b32 s:b32 s:u32 ; ptx=6.0 mask=operand
shfl MODE:up|down|bfly|idx b32 ; D:b32 s:b32 s:b32 s:b32 ; arch=-62 !shfl without .sync is not modelled
@chapter Parallel Synchronization and Communication Instructions
vote sync MODE:all|any|uni pred ; p q s:u32 ; ptx=6.0 mask=operand
vote sync MODE:ballot b32 ; d:b32 q s:u32 ; ptx=6.0 mask=operand
vote MODE:all|any|uni pred ; p q ; arch=-62 !vote without .sync is not modelled
vote MODE:ballot b32 ; d:b32 q ; arch=-62 !vote without .sync is not modelled
match any sync T:BITS2 ; d:u32 s:T s:u32 ; ptx=6.0 arch=70 mask=operand
match all sync T:BITS2 ; D:u32 s:T s:u32 ; ptx=6.0 arch=70 mask=operand
activemask b32 ; d:b32 ; ptx=6.2 arch=30
redux sync OP:add|min|max T:u32|s32 ; d:T s:T s:u32 ; ptx=7.0 arch=80 mask=operand
redux sync OP:and|or|xor T:b32 ; d:u32 s:u32 s:u32 ; ptx=7.0 arch=80 mask=operand
redux sync OP:min|max ~abs? ~NaN? T:f32 ; d:T s:T s:u32 ; ptx=8.6 arch=100f mask=operand
elect.sync ; E:u32 s:u32 ; ptx=8.0 arch=90 mask=operand
"""
