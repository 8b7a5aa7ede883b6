"""A model provider that speaks the OpenAI chat-completions protocol and answers from a script."""
