#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Help, versions, completion, and the errors for unknown words."""

import os
import re
import shutil
import subprocess

import lib_cli
from lib_cli import CliTest, EXIT_USAGE

LINES_MAX, COLUMNS_MAX = 24, 80
MANUAL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../man/quern.1")


class HelpTest(CliTest):
    pages = {}  # words to their page, which is the same for all tests

    def page(self, *words):
        if words not in self.pages:
            self.pages[words] = self.ok(*words, "--help")
        return self.pages[words]

    def verbs(self):
        """Every noun and verb that the help pages name."""
        found = [["completion"]]  # it stands below the list
        nouns = self.page().split("\n\n")[1].split("\n  --")[0]
        for noun in re.findall(r"^  (\w+) ", nouns, re.M) + ["bench"]:
            page = self.page(noun)
            if " VERB ..." not in page.splitlines()[0]:
                found.append([noun])
                continue
            found.append([noun])
            found += [[noun, verb] for verb in
                      re.findall(r"^  (\w+) ", page.split("\n\n")[2], re.M)]
        return found

    def test_every_help_page_fits_a_screen_and_has_an_example(self):
        verbs = self.verbs()
        for name in ("enqueue", "work", "doctor", "stats"):
            self.assertIn([name], verbs)
        for name in ("list", "inspect", "run", "archive", "delete", "cancel"):
            self.assertIn(["task", name], verbs)
        for words in [[]] + verbs:
            page = self.page(*words).splitlines()
            self.assertLessEqual(len(page), LINES_MAX, words)
            for line in page:
                self.assertLessEqual(len(line), COLUMNS_MAX, words)
            self.assertTrue(any(line == "Example:" for line in page), words)

    def options(self):
        """What --help prints: for each verb, as words, its options without the dashes."""
        found = {}
        for words in self.verbs():
            page = self.page(*words)
            more = re.findall(r"^  manual: (.*)$", page, re.M)
            found[tuple(words)] = (re.findall(r"^  --([a-z-]+)", page, re.M) +
                                   (", ".join(more).split(", ") if more else []))
        return found

    def test_options_without_a_line_of_their_own_are_named(self):
        options = self.options()
        for name in ("unique-key", "unique-until", "on-duplicate"):
            self.assertIn(name, options[("enqueue",)])
            self.assertIn(name, options[("schedule", "add")])
        self.assertIn("group-max-size", options[("work",)])

    def test_each_verb_and_option_is_in_the_manual(self):
        with open(MANUAL, encoding="utf-8") as file:
            pages = dict(re.findall(r"^\.Ss (\w+)\n(.*?)(?=^\.S[sh] )", file.read(), re.M | re.S))
        synopsis = set(self.manual("SYNOPSIS").split())
        missing = []
        for words, options in self.options().items():
            self.assertIn(words[0], synopsis)
            page = pages.get(words[0], "")
            if len(words) > 1 and not re.search(rf"^\.It Cm {words[1]}\b", page, re.M):
                missing.append(" ".join(words))
            missing += [f"{' '.join(words)} --{name}" for name in options
                        if not re.search(rf"(Fl |, )-{name}\b(?!-)", page)
                        and name not in ("broker", "json")]
        self.assertEqual(missing, [])

    def manual(self, section):
        with open(MANUAL, encoding="utf-8") as file:
            return re.search(rf"^\.Sh {section}\n(.*?)(?=^\.Sh )", file.read(), re.M | re.S)[1]

    def test_each_verb_and_option_is_in_the_completions(self):
        forms = {"bash": lambda text, words, name: re.search(
                     rf"'{' '.join(words)} ?[^']*'\*?\)\n        words='[^']*--{name}( |')", text),
                 "zsh": lambda text, words, name: re.search(
                     rf"'{' '.join(words)} ?'\*?\)\n        list=\(.* '--{name}:", text),
                 "fish": lambda text, words, name: re.search(
                     rf"from {'; and .* '.join(words)} ?' -l {name} ", text)}
        for shell, find in forms.items():
            text, missing = self.ok("completion", shell), []
            for words, options in self.options().items():
                missing += [f"{words} --{name}" for name in options
                            if name not in ("broker", "json") and not find(text, words, name)]
            self.assertEqual(missing, [], shell)

    def test_help_verb_is_the_same_page(self):
        self.assertEqual(self.ok("help", "task", "list"), self.ok("task", "list", "--help"))
        self.assertEqual(self.ok("help", "task"), self.ok("task", "--help"))
        self.assertEqual(self.ok("help"), self.ok("--help"))

    def test_help_wins_over_a_line_that_is_wrong(self):
        self.assertIn("usage: quern enqueue", self.ok("enqueue", "--wat", "--help", "-h"))

    def test_main_help_names_every_exit_code(self):
        page = self.ok("--help")
        for code in ("0", "1", "2", "3", "65", "69", "75", "77", "78"):
            self.assertRegex(page, rf"\b{code} \w")

    def test_no_words_at_all_is_a_usage_error(self):
        result = self.quern()
        self.assertEqual(result.returncode, EXIT_USAGE)
        self.assertEqual(result.stdout, "")
        self.assertIn("usage: quern", result.stderr)

    def test_noun_without_verb_is_a_usage_error(self):
        result = self.quern("queue")
        self.assertEqual(result.returncode, EXIT_USAGE)
        self.assertIn("usage: quern queue VERB", result.stderr)

    def test_wrong_verb_gets_the_nearest_one(self):
        self.assertIn("quern: unknown verb 'enque'; did you mean 'enqueue'?",
                      self.fails(EXIT_USAGE, "enque"))
        self.assertIn("did you mean 'list'?", self.fails(EXIT_USAGE, "queue", "lits"))
        self.assertNotIn("did you mean", self.fails(EXIT_USAGE, "zzzzzzzz"))

    def test_wrong_option_gets_the_nearest_one(self):
        self.assertIn("did you mean '--queue'?", self.fails(EXIT_USAGE, "enqueue", "--queu", "a"))
        self.assertIn("did you mean '--json'?", self.fails(EXIT_USAGE, "--jsn", "stats"))
        self.assertIn("unknown option '-q'", self.fails(EXIT_USAGE, "stats", "-q"))

    def test_words_of_other_programs_get_a_hint(self):
        cases = [
            (["ls"], "quern task list"), (["rm", "x"], "quern task delete"),
            (["retry", "x"], "quern task run"), (["requeue", "x"], "quern task run"),
            (["purge"], "quern task delete --all"), (["status"], "quern stats"),
            (["top"], "quern worker list"), (["task", "ls"], "quern task list"),
            (["task", "rm", "x"], "quern task delete"),
            (["queue", "rm", "q"], "quern queue remove"),
            (["queue", "purge", "q"], "quern task delete --all"),
            (["worker", "top"], "quern worker list"),
        ]
        for args, verb in cases:
            with self.subTest(args=args):
                self.assertIn(f"did you mean '{verb}", self.fails(EXIT_USAGE, *args))

    def test_wrong_values_name_the_option(self):
        cases = [
            (["enqueue", "t", "--in", "-5"], "--in"),
            (["enqueue", "t", "--timeout", "-1s"], "--timeout"),
            (["enqueue", "t", "--in=1 parsec"], "--in"),
            (["enqueue", "t", "--at", "tomorrow"], "--at"),
            (["enqueue", "t", "--retry", "-2"], "--retry"),
            (["enqueue", "t", "--retry", "x"], "--retry"),
            (["enqueue", "t", "--unique", "0.5s"], "--unique"),
            (["enqueue", "t", "--header", "novalue"], "--header"),
            (["enqueue", "t", "--queue", "a", "--queue", "b"], "--queue"),
            (["enqueue", "t", "--queue"], "--queue needs a value"),
            (["enqueue", "t", "--queue", "--id", "a"], "--queue needs a value"),
            (["enqueue", "t", "--in", "5", "--at", "@5"], "exclude each other"),
            (["enqueue"], "TYPE"),
            (["enqueue", "t", "p", "q"], "unexpected argument 'q'"),
            (["work", "--concurrency", "0"], "--concurrency"),
            (["work", "--exec", "nocommand"], "PATTERN=COMMAND"),
            (["work", "--exec", "=true"], "PATTERN=COMMAND"),
            (["work", "--queue", "a=0"], "weight"),
            (["work", "--queue", "a=x"], "weight"),
            (["work", "--exec", "t=true", "--queue", ""], "--queue: queue must not be empty"),
            (["work", "--exec", "t=true", "--queue", "=2"], "--queue: queue must not be empty"),
            (["work", "--exec", "t=true", "--queue", "q" * 300], "--queue: queue"),
            (["work", "--exec", "t=true", "--host", ""], "host"),
            (["work", "--lease", "10ms"], "--lease"),
            (["work", "--quiet", "--verbose"], "exclude each other"),
            (["task", "list", "--page", "0"], "--page"),
            (["task", "list", "--state", "pendng"], "did you mean 'pending'?"),
            (["task", "run"], "either IDs or --all"),
            (["task", "run", "x", "--all"], "either IDs or --all"),
            (["task", "run", "--all"], "--state"),
            (["task", "run", "x", "--state", "retry"], "--all"),
            (["task", "cancel", "x", "--then", "explode"], "neither retry nor archive"),
            (["queue", "pause"], "QUEUE"),
            (["queue", "history", "q", "--days", "91"], "--days"),
            (["stats", "--json=yes"], "takes no value"),
            (["completion", "csh"], "csh"),
        ]
        for args, text in cases:
            with self.subTest(args=args):
                self.assertIn(text, self.fails(EXIT_USAGE, *args))

    def test_messages_are_in_plain_english(self):
        """Those of the table in which they were agreed upon."""
        self.enqueue("t", "--id", "h1", "--in", "1h")
        self.write("bad.jsonl", '{"type":"t"}\nbad\n')
        self.write("same.jsonl", '{"type":"t","id":"new"}\n{"type":"t","id":"h1"}\n')
        cases = [
            (["enqueue", "a", "b", "c"], "unexpected argument 'c'"),
            (["queue", "remove", "default"], "not a terminal: use --yes"),
            (["enqueue", "--from", "bad.jsonl"], "stored 1 task before it; the rest was not read"),
            (["enqueue", "--from", "same.jsonl"], "skipped 1: id already exists (first: line 2)"),
            (["task", "cancel", "h1"],
             "cannot cancel task h1: it is not running (state: scheduled)"),
        ]
        for args, text in cases:
            with self.subTest(args=args):
                self.assertIn(text, self.quern(*args).stderr)
        self.assertIn("queue to serve, with its weight (default 1)", self.ok("work", "--help"))

    def test_double_dash_ends_the_options(self):
        task_id = self.enqueue("--queue", "odd", "--", "--type", "--payload")
        task = self.task(task_id)
        self.assertEqual((task["type"], task["payload"]), ("--type", "--payload"))

    def test_global_options_may_stand_anywhere(self):
        other = self.path("other.db")
        first = self.quern("--broker", other, "enqueue", "t").stdout.strip()
        second = self.quern("enqueue", "t", f"--broker={other}").stdout.strip()
        self.assertEqual(len(self.json("task", "list", "--broker", other)), 2)
        self.assertNotEqual(first, second)

    def test_version_is_printed_in_each_way(self):
        self.assertRegex(self.ok("--version"), r"^quern \d+\.\d+\.\d+$")
        self.assertEqual(self.ok("version"), self.ok("--version"))
        self.assertRegex(self.json("version")["version"], r"^\d+\.\d+\.\d+$")

    def test_bash_completion_offers_verbs_and_options(self):
        script = self.write("completion", self.ok("completion", "bash"))
        ask = (f"source {script}; COMP_WORDS=(quern %s); COMP_CWORD=%d; _quern; "
               "echo \"${COMPREPLY[@]}\"")

        def offers(words, count):
            return subprocess.run(["bash", "-c", ask % (words, count)], capture_output=True,
                                  text=True, check=True, timeout=30).stdout.split()
        self.assertIn("enqueue", offers("enq", 1))
        self.assertIn("pause", offers("queue pau", 2))
        self.assertIn("--header", offers("enqueue t --hea", 3))
        self.assertIn("--state", offers("--broker x task list --sta", 5))
        self.assertEqual(offers("task list --state pe", 4), ["pending"])

    def test_other_completions_offer_the_same(self):
        for shell, words in (("zsh", ("#compdef quern", "'pause:", "'--header:", "list=(pending ")),
                             ("fish", ("-a pause ", "-l header -r", "-l state -xa 'pending "))):
            with self.subTest(shell=shell):
                script = self.ok("completion", shell)
                for word in words:
                    self.assertIn(word, script)
                if shutil.which(shell) is not None:
                    subprocess.run([shell, "-n", self.write(shell, script)], check=True,
                                   timeout=30)


if __name__ == "__main__":
    lib_cli.main()
