"""Does in plain folders what docker does with a Dockerfile, stage by stage, and starts the image that comes of it.

    build.py read CHECKOUT [NAME=VALUE]...                     reads it, and prints what it would do
    build.py build CHECKOUT IMAGE ROOT... -- [NAME=VALUE]...   does it, each stage in a root that stands for its base image
    build.py run IMAGE [--entrypoint PROGRAM] WORD...          as `docker run`

IMAGE is a file: what the image says of itself. Beside a ROOT, ROOT.environment has the variables of the base image.
"""

import json
import os
import posixpath
import subprocess
import sys
from pathlib import Path

from dockerfile import Reader, Refused, context, words

ENTER = Path(__file__).parents[1] / "lib" / "in-root"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# How this machine reaches the network: docker's builds are told of it, too.
NETWORK = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
UNPACK = 'mkdir -p "$1" && exec tar -x --no-same-owner --keep-directory-symlink --no-overwrite-dir -C "$1"'


def say(text):
    print(f"check-dockerfile: {text}", file=sys.stderr, flush=True)


def in_root(folder, account, workdir, variables, command):
    """The command line of a command within a root."""
    return [ENTER, folder, account, workdir, *(f"{name}={value}" for name, value in variables.items()), *command]


class Root:
    """The file system of a stage, and what its instructions say of the image."""

    def __init__(self, folder, variables):
        self.folder = folder
        self.variables = variables
        self.user = "0"
        self.workdir = "/"
        self.entrypoint = []

    def account(self):
        """User and group by number, and the home, which the root's own list of users knows."""
        name, _, group = self.user.partition(":")
        for line in (self.folder / "etc/passwd").read_text().splitlines():
            user, _, uid, gid, _, home, *_ = line.split(":")
            if name in (user, uid):
                return f"{uid}:{group or gid}", home
        if not name.isdigit():
            raise Refused(f"USER {self.user}: the base image has no such user")
        return f"{name}:{group or 0}", "/"

    def command(self, words, more=None):
        """What runs `words` as the image would."""
        account, home = self.account()
        return in_root(self.folder, account, self.workdir, {"HOME": home, **self.variables, **(more or {})}, words)

    def as_root(self, *command, **how):
        """Runs what docker does itself, as root whatever USER says."""
        subprocess.run(in_root(self.folder, "0:0", "/", {"PATH": PATH}, command), check=True, **how)

    def path(self, text):
        """An absolute path within it."""
        return posixpath.normpath(posixpath.join(self.workdir, text))


class Build:
    """Runs the stages of a file."""

    def __init__(self, checkout):
        self.checkout = checkout
        self.roots = {}
        self.network = {name: os.environ[name] for name in NETWORK if name in os.environ}

    def run(self, stages, folders, bases):
        """All stages; the last one's root is that of the image."""
        does = {"RUN": self.do, "COPY": self.copy, "ENV": self.set, "WORKDIR": self.enter, "USER": self.become, "ENTRYPOINT": self.start}
        for stage, folder, variables in zip(stages, folders, bases):
            root = self.roots[stage.name] = Root(folder, dict(variables))
            say(f"FROM {stage.image} AS {stage.name}")
            for step in stage.steps:
                say(f"{step.name} {step.value}")
                try:
                    does[step.name](root, step)
                except Refused as error:
                    raise Refused(f"line {step.line}, {step.name}: {error}") from None
                except subprocess.CalledProcessError as error:
                    raise Refused(f"line {step.line}, {step.name}: it ended with {error.returncode}; see above") from None
        return root

    def do(self, root, step):
        command = words(step.value, "RUN") if step.value.startswith("[") else ["/bin/sh", "-c", step.value]
        subprocess.run(root.command(command, {**self.network, **step.variables}), check=True, stdout=sys.stderr)

    def set(self, root, step):
        root.variables.update(step.sets)

    def enter(self, root, step):
        root.workdir = root.path(step.value)
        root.as_root("mkdir", "-p", root.workdir)

    def become(self, root, step):
        root.user = step.value
        root.account()

    def start(self, root, step):
        root.entrypoint = words(step.value, "ENTRYPOINT")

    def copy(self, root, step):
        """A whole folder's content, of the context or of another stage. Each root follows its own links, as it itself packs and unpacks."""
        given = step.value.split()
        stage = given.pop(0).removeprefix("--from=") if given[0].startswith("--from=") else None
        if len(given) != 2 or given[0].startswith("-"):
            raise Refused("only COPY [--from=STAGE] FOLDER FOLDER is known here")
        source, target = given[0], root.path(given[1])
        if stage is None:
            folder = (self.checkout / source).resolve()
            names = [name for name in context(self.checkout) if (self.checkout / name).is_relative_to(folder)]
            names = "\0".join(os.path.relpath(self.checkout / name, folder) for name in names)
            packer = ["tar", "-c", "-C", folder, "--null", "--no-recursion", "--files-from=-"]
        elif stage in self.roots:
            names = ""
            packer = in_root(self.roots[stage].folder, "0:0", "/", {"PATH": PATH}, ["tar", "-c", "-C", source, "."])
        else:
            raise Refused(f"there is no stage '{stage}' before this one")
        self.pass_on(packer, names, root, target)

    @staticmethod
    def pass_on(packer, names, root, target):
        with subprocess.Popen(packer, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as packing:
            with subprocess.Popen(in_root(root.folder, "0:0", "/", {"PATH": PATH}, ["sh", "-c", UNPACK, "sh", target]), stdin=packing.stdout) as unpacking:
                packing.stdout.close()
                packing.stdin.write(names.encode())
                packing.stdin.close()
        if packing.returncode or unpacking.returncode:
            raise Refused("what was to be copied could not be packed or unpacked")


def read(checkout, arguments, bases=()):
    """The stages of its Dockerfile."""
    return Reader(dict(word.split("=", 1) for word in arguments), bases).read((checkout / "Dockerfile").read_text())


def told(checkout, *arguments):
    """Prints the steps, and holds the context to what git knows of: what it ignores was made here, and belongs into no image."""
    for stage in read(checkout, arguments):
        print(f"FROM {stage.image} AS {stage.name}")
        for step in stage.steps:
            print(f"{step.name} {step.value}")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--others", "--ignored", "--exclude-standard"], cwd=checkout, check=True, capture_output=True, text=True
    )
    made = sorted(set(listed.stdout.split("\0")) & set(context(checkout)))
    if made:
        raise Refused(f"COPY would take in what git ignores, {made[0]} and {len(made) - 1} more: add it to .dockerignore")


def build(checkout, image, *rest):
    """Runs the steps; leaves in the file `image` what is needed to start what they made."""
    at = rest.index("--")
    folders, arguments = [Path(folder) for folder in rest[:at]], rest[at + 1 :]
    bases = [dict(line.split("=", 1) for line in Path(f"{folder}.environment").read_text().splitlines()) for folder in folders]
    stages = read(checkout, arguments, bases)
    if len(stages) != len(folders):
        raise Refused(f"it has {len(stages)} stages, and {len(folders)} roots stand for their base images")
    root = Build(checkout).run(stages, folders, bases)
    Path(image).write_text(json.dumps({**vars(root), "folder": str(root.folder)}))


def run(image, *given):
    """Starts the image's program, or another one in its place."""
    kept = json.loads(Path(image).read_text())
    root = Root(Path(kept.pop("folder")), {})
    vars(root).update(kept)
    command = [*given[1:]] if given[:1] == ("--entrypoint",) else [*root.entrypoint, *given]
    os.execv(ENTER, [str(word) for word in root.command(command)])


def main():
    match sys.argv[1:]:
        case ["read", checkout, *arguments]:
            told(Path(checkout).resolve(), *arguments)
        case ["build", checkout, image, *rest]:
            build(Path(checkout).resolve(), image, *rest)
        case ["run", image, *given]:
            run(image, *given)
        case _:
            sys.exit(__doc__)


try:
    main()
except Refused as refused:
    sys.exit(f"check-dockerfile: error: Dockerfile: {refused}")
