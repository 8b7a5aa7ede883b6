"""Astrel ERP, a receiver with one record API under three contracts: keyed, lookup, neither."""
