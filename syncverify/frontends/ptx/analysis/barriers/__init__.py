"""What threads of a block do between its barriers."""
