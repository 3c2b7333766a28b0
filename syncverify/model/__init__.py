"""The semantics, written once: proxies, spaces, events, the ordering table, the automata."""
