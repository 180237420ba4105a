"""Reads a Dockerfile and a .dockerignore: the instructions of every stage with their variables put in, and the files of the context.

What it does not know it refuses, so that nothing of a Dockerfile is left out without a word.
"""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)(?::([-+])([^}]*))?\})")
IMAGE = re.compile(r"[\w./-]+(:[\w.-]+)?(@sha256:[0-9a-f]{64})?")
# Whose values docker substitutes; the words of RUN are the shell's.
SUBSTITUTED = {"FROM", "ENV", "WORKDIR", "COPY", "USER"}
KNOWN = SUBSTITUTED | {"ARG", "RUN", "ENTRYPOINT"}


class Refused(Exception):
    """What is wrong with the file, and where."""


@dataclass
class Step:
    """An instruction of a stage. `variables` are those that it sees, ARGs and ENVs; `sets` are those that an ENV gives the image."""

    line: int
    name: str
    value: str
    variables: dict[str, str]
    sets: dict[str, str]


@dataclass
class Stage:
    """Steps on a base image."""

    name: str
    image: str
    steps: list[Step] = field(default_factory=list)


def logical_lines(text):
    """Lines with those that continue them, and the number of the first; without comments, which may stand between them."""
    start, parts = 0, []
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("#"):
            if re.match(r"#\s*(escape|syntax|check)\s*=", line):
                raise Refused(f"line {number}: parser directives are not known here")
            continue
        if not parts and not line.strip():
            continue
        start = start if parts else number
        parts.append(line)
        if not line.rstrip().endswith("\\"):
            yield start, "\n".join(parts).strip()
            parts = []
    if parts:
        raise Refused(f"line {start}: nothing follows the last backslash")


def substitute(text, variables):
    """`$NAME`, `${NAME}`, `${NAME:-DEFAULT}` and `${NAME:+OTHER}`."""

    def value(match):
        known = variables.get(match[1] or match[2], "")
        if match[3] == "-":
            return known or match[4]
        if match[3] == "+":
            return match[4] if known else ""
        return known

    return VARIABLE.sub(value, text)


class Reader:
    """Reads one file with these build arguments, and with the variables that the base image of each stage has."""

    def __init__(self, arguments, bases=()):
        self.arguments = arguments
        self.bases = bases
        self.taken = set()
        self.outer = {}
        self.stages = []
        self.variables = {}
        self.fixed = set()

    def read(self, text):
        """All stages."""
        for line, instruction in logical_lines(text):
            name, _, value = instruction.partition(" ")
            try:
                self.take(line, name.upper(), value.strip())
            except Refused as refused:
                raise Refused(f"line {line}: {refused}") from None
        unknown = set(self.arguments) - self.taken
        if unknown:
            raise Refused(f"no ARG takes {', '.join(sorted(unknown))}")
        if not self.stages:
            raise Refused("there is no FROM")
        return self.stages

    def take(self, line, name, value):
        if name not in KNOWN:
            raise Refused(f"{name} is not known here; teach it to scripts/container, or do without")
        if name != "RUN":
            value = re.sub(r"\\\n\s*", " ", value)
        if name == "ARG":
            self.argument(value)
            return
        if name in SUBSTITUTED:
            value = substitute(value, self.outer if name == "FROM" else self.variables)
        if name == "FROM":
            self.begin(value)
            return
        if not self.stages:
            raise Refused(f"{name} stands before the first FROM")
        sets = self.environment(value) if name == "ENV" else {}
        self.stages[-1].steps.append(Step(line, name, value, dict(self.variables), sets))

    def argument(self, value):
        name, has_default, default = value.partition("=")
        here = self.variables if self.stages else self.outer
        if name in self.arguments:
            self.taken.add(name)
        if name in self.fixed:
            return
        if name in self.arguments:
            here[name] = self.arguments[name]
        elif has_default:
            here[name] = substitute(default, here)
        elif self.stages and name in self.outer:
            here[name] = self.outer[name]

    def begin(self, value):
        match = re.fullmatch(r"(\S+)(?:\s+AS\s+(\S+))?", value, re.IGNORECASE)
        if not match:
            raise Refused(f"FROM {value}: only FROM IMAGE [AS NAME] is known here")
        if not IMAGE.fullmatch(match[1]):
            raise Refused(f"'{match[1]}' is no image: NAME:TAG, or NAME@sha256: and 64 hexadecimal digits")
        number = len(self.stages)
        self.stages.append(Stage(match[2] or str(number), match[1]))
        self.variables = dict(self.bases[number]) if number < len(self.bases) else {}
        self.fixed = set(self.variables)

    def environment(self, value):
        sets = {}
        for word in re.findall(r'(?:[^\s"]|"[^"]*")+', value):
            name, equals, text = word.partition("=")
            if not equals:
                raise Refused(f"ENV {value}: only NAME=VALUE is known here")
            sets[name] = text.replace('"', "")
        self.variables.update(sets)
        # An ENV stands above an ARG of its name.
        self.fixed.update(sets)
        return sets


def words(value, what):
    """The words of an instruction in JSON."""
    try:
        found = json.loads(value)
    except json.JSONDecodeError:
        found = None
    if not isinstance(found, list) or not all(isinstance(word, str) for word in found):
        raise Refused(f'{what} {value}: it must be ["PROGRAM", "ARGUMENT", ...]')
    return found


def pattern(text):
    """A line of .dockerignore as a regular expression of what it names, and of what is below that."""
    parts = []
    for part in Path(text.strip("/")).parts:
        if part == "**":
            parts.append("(?:[^/]+/)*")
            continue
        glob = re.sub(r"\\\*", "[^/]*", re.escape(part)).replace(r"\?", "[^/]")
        parts.append(glob + "/")
    return re.compile("".join(parts).removesuffix("/") + "(/.*)?")


def ignored(text):
    """A function that tells whether .dockerignore leaves a path out: the last line that names it decides, `!` takes it in again."""
    lines = [line.strip() for line in text.splitlines()]
    rules = [(pattern(line.lstrip("!")), not line.startswith("!")) for line in lines if line and not line.startswith("#")]

    def leaves_out(path):
        verdict = False
        for rule, out in rules:
            if rule.fullmatch(path):
                verdict = out
        return verdict

    return leaves_out


def context(folder):
    """The files that docker would be sent, relative to `folder`."""
    file = folder / ".dockerignore"
    text = file.read_text() if file.exists() else ""
    leaves_out, takes_in_again = ignored(text), any(line.startswith("!") for line in text.splitlines())
    found, folders = [], [folder]
    while folders:
        for path in sorted(folders.pop().iterdir()):
            name = path.relative_to(folder).as_posix()
            out = leaves_out(name)
            if path.is_dir() and not path.is_symlink():
                # Nothing below a folder that is left out comes in, unless some line takes something in again.
                if not out or takes_in_again:
                    folders.append(path)
            elif not out:
                found.append(name)
    return found
