"""What work cost: counted from the attempts into sums, exactly once, and read as sums and what is not counted yet."""
