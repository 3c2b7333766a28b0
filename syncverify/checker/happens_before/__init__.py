"""One run: vector clocks, shadow memory, the handlers of events, obligations at the end."""
