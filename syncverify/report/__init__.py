"""One report, in every form in which it is given out: text, JSON, SARIF, JUnit, HTML, traces."""
