"""What the console reads: everything that spans the rooms. Every function needs the tenant's scope."""
