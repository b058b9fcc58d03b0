"""How 32 weights in a row become numbers in compiled code, for every layout."""
