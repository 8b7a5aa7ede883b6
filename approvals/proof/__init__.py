"""One decision as a file that proves by itself who approved which bytes: exported, signed, and verified anywhere."""
