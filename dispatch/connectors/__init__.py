"""How frozen requests leave: over HTTP by a contract alone, by mail, or by a class of the user's own."""
