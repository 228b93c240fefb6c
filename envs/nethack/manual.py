"""What the system prompt says of the games."""

from __future__ import annotations

HOW_TO_READ = """\
Each observation has five parts.
- message: what the game has just said; long messages are joined.
- language observation: what is in sight, farthest first, with distance and compass direction from you. Walls and \
doorways are told only where they lie straight ahead in one of eight directions.
- cursor: what the cursor stands on, and its place. x counts columns, y rows of the map; x=0 is the leftmost \
column, y=1 the first row of the map. The cursor is on you unless the game asks for a place.
- map: the screen. @ is you (or another human), letters are creatures, . floor, # corridor, tree or sink, | and - \
walls (or open doors), + closed door or spellbook, > stairs down, < stairs up, _ altar, { fountain, } water or lava, \
^ trap, ` boulder or rock, $ gold, ) weapon, [ armour, % food, ! potion, ? scroll, / wand, = ring, ( tool, * gem. \
Its last two rows are your status.
- inventory: what you carry, by letter."""

HOW_TO_ANSWER = """\
When the message is a question, the next action answers it:
- a direction (In what direction?): a compass action such as north; up, down, or wait for yourself;
- an item (What do you want to eat? [bd or ?*]): one of the letters in the brackets;
- yes or no ([yn]): y or n;
- a menu or list: the letters of what you choose, then more; esc leaves it;
- a text: letter by letter, then more.
esc leaves any question."""

_NETHACK = """\
You play NetHack, a game of exploring a deep dungeon where death is final. The goal is to get as far as possible: \
down the stairs to deeper levels, and up in experience by defeating monsters. Progress counts the deepest level and \
the highest experience level you have reached.

{read}

Actions. The compass names move one step or attack; with far before them you run until something turns up. down and \
up take the stairs you stand on. Other actions are named after the commands of the game: search, open, kick, eat, \
pickup, wield, wear, pray, zap and so on. A single letter or digit presses that key. A number of two digits, such as \
20, repeats the command that follows. wait rests a turn.

{answer}

Walls and blank squares stop you; a closed door is opened with open and a direction, a locked one kicked. An open \
door cannot be entered or left diagonally; an empty doorway or a broken door can. Where no way leads on, search \
several times beside walls and dead ends. Eat when hungry. The episode ends when you die, and when no turn has passed \
in the game for {patience} steps."""


def instructions(patience: int) -> str:
    """The rules of NetHack for the system prompt, about 400 words."""
    return _NETHACK.format(read=HOW_TO_READ, answer=HOW_TO_ANSWER, patience=patience)
