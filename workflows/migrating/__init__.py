"""Taking a job from the revision that it pinned to a later one, by the migration that the later one declares.

    planning   what would become of the input and of every saved result: tried in full, nothing changed
    results    each saved result kept or converted, and fitting the later revision's types
    elements   what the rest of a half done fan-out works on
    applying   the same done, in one transaction, if nothing else has happened meanwhile

What a migration does not keep is set aside: its stage gets another name and kind, and everything that was saved in it
stays. Nothing is ever changed in a checkpoint or an input; a conversion is the next version.
"""
