"""Who calls whom for every entry: what the command line, the API and the gate share above the checkers."""
