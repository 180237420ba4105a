"""What is read of Dockerfiles, against docker's reference. Run by scripts/check-dockerfile."""

import subprocess
import tempfile
import unittest
from pathlib import Path

from dockerfile import Reader, Refused, context, ignored, logical_lines, words

ENTRYPOINT = Path(__file__).parent / "entrypoint"
DIGEST = "sha256:" + "0a" * 32


def stages(text, *bases, **arguments):
    return Reader(arguments, bases).read(text)


class Instructions(unittest.TestCase):
    def test_lines_go_on_behind_a_backslash_and_over_remarks(self):
        lines = list(logical_lines("# a\nRUN a \\\n  # b\n  && c\n\nUSER 1\n"))
        self.assertEqual(lines, [(2, "RUN a \\\n  && c"), (6, "USER 1")])

    def test_arguments_before_the_first_stage_are_for_images_and_those_that_ask(self):
        text = "ARG I=a:1\nARG V=2\nFROM ${I}\nARG V\nENV SEEN=$V UNSEEN=${I}x DEFAULT=${I:-d}\n"
        [stage] = stages(text)
        self.assertEqual((stage.image, stage.steps[0].sets), ("a:1", {"SEEN": "2", "UNSEEN": "x", "DEFAULT": "d"}))
        [stage] = stages(text, I=f"b@{DIGEST}", V="3")
        self.assertEqual((stage.image, stage.steps[0].sets["SEEN"]), (f"b@{DIGEST}", "3"))

    def test_a_variable_of_the_image_stands_above_an_argument(self):
        text = "FROM a\nENV V=1\nARG V=2\nENV P=/x:$P\nWORKDIR /$V\n"
        [stage] = stages(text, {"P": "/bin"})
        self.assertEqual((stage.steps[1].sets, stage.steps[2].value), ({"P": "/x:/bin"}, "/1"))

    def test_stages_have_names_and_commands_are_the_shell_s(self):
        first, second = stages("FROM a AS one\nRUN echo $HOME\nFROM b\nCOPY --from=one / /\n")
        self.assertEqual((first.name, second.name, first.steps[0].value), ("one", "1", "echo $HOME"))

    def test_what_is_not_known_is_refused_with_its_line(self):
        for text, part in [
            ("FROM a\nHEALTHCHECK x", "line 2: HEALTHCHECK"),
            ("RUN x", "line 1: RUN stands before"),
            ("FROM a b", "line 1: FROM a b"),
            ("FROM a@sha256:12", "is no image"),
            ("# escape=`\nFROM a", "parser directives"),
            ("FROM a\nRUN x \\", "nothing follows"),
            ("FROM a\nENV x", "NAME=VALUE"),
            ("", "no FROM"),
        ]:
            with self.assertRaisesRegex(Refused, part):
                stages(text)
        with self.assertRaisesRegex(Refused, "no ARG takes X"):
            stages("FROM a", X="1")
        with self.assertRaisesRegex(Refused, "must be"):
            words("a b", "ENTRYPOINT")


class Ignoring(unittest.TestCase):
    def test_patterns_name_paths_from_the_top_and_all_below(self):
        out = ignored("# a remark\n.git\n/dist/\n**/target\n*.log\n!keep.log\nsub/a?\n")
        for path in [".git", ".git/config", "dist", "target", "a/b/target/c", "x.log", "sub/ab"]:
            self.assertTrue(out(path), path)
        for path in ["sub/.git", "sub/dist", "targets", "keep.log", "sub/x.log", "sub/abc", ".gitignore"]:
            self.assertFalse(out(path), path)

    def test_the_context_is_what_is_not_left_out(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "a/target").mkdir(parents=True)
            for file in ["a/x", "a/target/y", "z"]:
                (folder / file).touch()
            (folder / "link").symlink_to("a")
            self.assertEqual(sorted(context(folder)), ["a/target/y", "a/x", "link", "z"])
            (folder / ".dockerignore").write_text("**/target\n!a/target/y\nz\n")
            self.assertEqual(sorted(context(folder)), [".dockerignore", "a/target/y", "a/x", "link"])


class EntryPoint(unittest.TestCase):
    """The script that the image starts with."""

    def start(self, *words, nvidia=True):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for program, text in [
                ("triton-bench", 'printf "%s|" "$CUDA_COMPAT" "$@"'),
                ("nvidia_entrypoint.sh", 'echo banner; export CUDA_COMPAT=here; exec "$@"'),
            ]:
                (folder / program).write_text(f"#!/bin/bash\n{text}\n")
                (folder / program).chmod(0o755)
            place = folder / ("nvidia_entrypoint.sh" if nvidia else "none")
            environment = {"PATH": f"{folder}:/usr/bin:/bin", "NVIDIA_ENTRYPOINT": str(place)}
            return subprocess.run([ENTRYPOINT, *words], env=environment, capture_output=True, text=True, check=True)

    def test_nvidia_s_comes_first_and_leaves_standard_output_alone(self):
        done = self.start("-m", "a model", "")
        self.assertEqual((done.stdout, done.stderr), ("here|-m|a model||", "banner\n"))

    def test_an_image_without_one_starts_the_program(self):
        self.assertEqual(self.start("--version", nvidia=False).stdout, "|--version|")


if __name__ == "__main__":
    unittest.main()
