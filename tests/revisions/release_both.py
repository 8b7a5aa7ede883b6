"""What a careful deploy brings: the new revision, which new jobs take, and the old one until its jobs have ended."""

from tests.revisions.letters_1 import letters
from tests.revisions.letters_2 import letters_2

__all__ = ["letters", "letters_2"]
