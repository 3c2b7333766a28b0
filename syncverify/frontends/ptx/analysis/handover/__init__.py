"""What blocks hand to each other through global memory, and values that some paths leave open."""
