"""What can be done with rows: hold them, filter their spectrum, solve with them."""
