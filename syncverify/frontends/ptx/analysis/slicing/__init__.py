"""What the analysis keeps of a text: the instructions that matter, and sizes that loops leave open."""
