"""The words of Desk: people, documents, and what its programs chatter about."""

from __future__ import annotations

_FIRST = """
    Marta Otto Ines Pavel Greta Hugo Nadia Felix Clara Jonas Vera Emil Tilda Bruno Selma Oskar Lydia Anton Frida Malik
    Elena Rufus Stina Viktor
"""
_LAST = """
    Quill Brandt Moreau Novak Lindt Okafor Perez Ritter Sandoz Tanaka Ulrich Varga Winter Yilmaz Zeller Abbas Costa
    Dubois Ferrari Holm
"""
FIRST = tuple(_FIRST.split())
LAST = tuple(_LAST.split())

DOCUMENTS = ("lease", "deed", "permit", "will", "diploma", "passport", "receipt", "survey")

#: What the log of a command says; `{number}` and `{code}` are drawn anew for every line.
CHATTER = (
    "worker {number} took job {code} from the queue",
    "cache /var/cache/{code}/{number}.bin is warm",
    "retry {number} of lock {code} was not needed",
    "mirror {code} answered in {number} ms",
    "checked row {number} of table {code}: no difference",
    "rotated /var/log/{code}.{number}",
    "heartbeat {number} of node {code}",
    "WARN slow query {code}: {number} ms",
    "index {code} has {number} entries",
    "Backup {code} is {number} minutes old",
)

#: Short notices that come with some answers, and matter to nobody at this desk.
NOTICES = (
    "Notice {code}: the printer in Room {number} is out of paper.",
    "Notice {code}: Visitors of Hall {number} use the North Gate today.",
    "Notice {code}: Parcel {number} waits for the Night Shift at /srv/hall/{number}.",
    "Notice {code}: the Canteen serves Menu {number} until two.",
)
