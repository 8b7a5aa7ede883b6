"""A company bureau: a register of companies and their credit ratings, two APIs that only answer questions."""
