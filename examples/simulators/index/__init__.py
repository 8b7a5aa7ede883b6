"""A document index: collections of texts with their vectors, searched by nearness. It tells what it was asked and did."""
