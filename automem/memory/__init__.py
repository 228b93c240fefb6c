"""Memory of an episode: a directory of text files, the operations on them, and the journal of changes."""

from automem.memory.files import Memory, MemoryLimits, OperationResult
from automem.memory.kinds import FileSpec, Splice

__all__ = ["FileSpec", "Memory", "MemoryLimits", "OperationResult", "Splice"]
