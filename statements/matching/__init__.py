"""Which line of a statement is which operation: the ladder, what the machine may take by it, and what people say."""
