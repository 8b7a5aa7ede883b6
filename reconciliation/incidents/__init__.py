"""Storms: many cases of one kind about one receiver, in which the same thing went wrong, are one incident.

    joining    what a case that opens belongs to, without waiting for anybody
    sweeping   what follows: people are told once, cases that came before join, the last answer closes it
    pages      what the screens show

An incident answers nothing. Each of its cases keeps its question, its clocks and its evidence; what is done to all of
them is a bulk, with a result for each.
"""
