"""The first attempt at every size: agents ask when no other can go on, and the certificate says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from syncverify.base.certificate_data import RejectedError
from syncverify.base.diagnostics import ScopeKind, Verdict
from syncverify.driver.certificates import dumps
from syncverify.driver.files import certificates, check_source, read_source, recheck
from syncverify.frontends.launch_facts import read_facts
from tests.frontends.ptx.analysis.slicing.test_iteration_havoc import FACTS, PARAMS, REMADE
from tests.frontends.ptx.execute_helpers import module_text


def test_a_certificate_says_when_agents_ask(tmp_path: Path) -> None:
    (path := tmp_path / "k.ptx").write_text(module_text(REMADE.replace("SYNC", "bar.sync 0;"), params=PARAMS))
    (launch := tmp_path / "k.toml").write_text(FACTS)
    source, facts = read_source(path), read_facts(launch)
    (report,) = check_source(source, facts=facts, scope=ScopeKind.ALL, repairs=False)
    assert report.verdict is Verdict.PROVED, report.reason
    text = dumps(certificates(source, facts, {}, [report]))
    data = json.loads(text)
    (part,) = [x for x in data["kernels"][0]["proof"]["parts"] if "systems" in x]
    (system,) = part["systems"]
    assert system["asks_last"] is True
    (done,) = recheck(text, "c.json", source, facts)
    assert done.met.counts["nodes"] == len(system["nodes"])
    system["asks_last"] = False
    with pytest.raises(RejectedError):
        recheck(json.dumps(data), "c.json", source, facts)
