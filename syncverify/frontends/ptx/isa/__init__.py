"""The PTX ISA as a table: what instructions there are, in which forms, and on which architectures.

``groups`` holds the rows as text, ``rows`` their meaning, ``words`` named sets of modifiers and why some of
them do not matter, ``targets`` the architectures, ``match`` the row of an instruction, ``validate`` the
check of a module. Facts are those of PTX ISA 8.0 to 9.4; ptxas judges them (benchmarks/checker/fuzz_isa.py).
"""
