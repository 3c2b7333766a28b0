"""From failures to findings: root causes, hangs, witnesses, counterexamples, redundancy."""
