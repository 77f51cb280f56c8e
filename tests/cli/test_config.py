#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Options from a file and the environment: what is stronger, what is refused and where, contexts,
and what `quern config` says of them."""

import json
import os

import lib_cli
from lib_cli import CliTest, EXIT_BROKER, EXIT_CONFIG, EXIT_USAGE


class ConfigTest(CliTest):
    def setUp(self):
        super().setUp()
        self.env["QUERN_BROKER"] = ""

    def configure(self, text, name="quern.conf"):
        self.write(name, text)
        os.chmod(self.path(name), 0o600)
        self.env["QUERN_CONFIG"] = self.path(name)

    def values(self, *verb, line=(), env=None):
        """Name to (value, source, line or variable), the last one of each name."""
        more = ["--", *line] if line else []
        found = json.loads(self.ok("config", "show", "--json", *verb, *more, env=env))
        return {one["name"]: (one["value"], one["source"],
                              one.get("place", "").rpartition(":")[2]) for one in found["values"]}

    # --- sources ---------------------------------------------------------------------------

    def test_line_is_stronger_than_environment_than_file(self):
        self.configure("[work]\nconcurrency = 3\nqueue = a\nqueue = b=2\nhost = x\nquiet = yes\n")
        env = {"QUERN_WORK_CONCURRENCY": "5", "QUERN_WORK_HOST": "y"}
        values = self.values("work", line=["--host", "z"], env=env)
        self.assertEqual(values["host"], ("z", "command line", ""))
        self.assertEqual(values["concurrency"],
                         ("5", "environment", "QUERN_WORK_CONCURRENCY"))
        self.assertEqual(values["queue"], ("b=2", "file", "4"))
        self.assertEqual(values["quiet"], ("true", "file", "6"))
        self.assertEqual(values["lease"], (None, "default", ""))

    def test_broker_comes_from_its_variables(self):
        self.configure("[context a]\nbroker = a.db\n")
        def broker(**env):
            return self.values("stats", env=env)["broker"]
        self.assertEqual(broker(QUERN_CONTEXT="a"), ("a.db", "environment", "QUERN_CONTEXT"))
        self.assertEqual(broker(QUERN_BROKER="b.db", REDIS_URL="redis://x"),
                         ("b.db", "environment", "QUERN_BROKER"))
        self.assertEqual(broker(REDIS_URL="redis://u:secret@x"),
                         ("redis://u:***@x", "environment", "REDIS_URL"))
        self.assertEqual(broker()[1:], ("default", ""))

    def test_repeated_option_comes_from_one_source(self):
        self.configure("[work]\nqueue = a\nqueue = b\n")
        def queues(*line, env=None):
            words = ["--", *line] if line else []
            found = json.loads(self.ok("config", "show", "--json", "work", *words, env=env))
            return [one["value"] for one in found["values"] if one["name"] == "queue"]
        self.assertEqual(queues(), ["a", "b"])
        self.assertEqual(queues(env={"QUERN_WORK_QUEUE": "c=3\nd"}), ["c=3", "d"])
        self.assertEqual(queues("--queue", "e", env={"QUERN_WORK_QUEUE": "c"}), ["e"])

    def test_opposite_of_a_flag_is_overruled(self):
        self.configure("[work]\nquiet = true\ndrain = on\n")
        values = self.values("work", line=["--verbose", "--until-idle"])
        self.assertEqual([values[name][0] for name in ("quiet", "drain", "verbose")],
                         [None, None, "true"])
        values = self.values("work", env={"QUERN_WORK_QUIET": "false"})
        self.assertEqual(values["quiet"][:2], ("false", "environment"))

    def test_section_of_a_verb_is_stronger_than_what_all_have(self):
        self.configure("json = true\n[stats]\njson = false\n[general]\nno-retry = 1\n"
                       f"broker = {self.broker}\n")
        self.ok("enqueue", "t")
        self.assertIn("default", self.ok("queue", "list"))
        self.assertTrue(self.ok("queue", "list").startswith("["))
        self.assertFalse(self.ok("stats").startswith("{"))
        self.assertEqual(self.values("stats")["no-retry"], ("true", "file", "5"))

    def test_value_is_the_rest_of_its_line(self):
        long = "x" * 3000
        self.configure(f"[work]\r\nexec = a:= ./run ; echo \"b # c\" = {long}  \n"
                       "# exec = no\n; exec = no\n\texec_loop: t=cat\n")
        values = self.values("work")
        self.assertEqual(values["exec"][0].rstrip("x"), "a:= ./run ; echo \"b # c\" = ")
        self.assertEqual(values["exec-loop"][0], "t=cat")

    def test_verb_runs_with_its_values(self):
        self.configure(f"broker = {self.broker}\n[enqueue]\nqueue = mails\ntimeout = 30s\n"
                       "[work]\nqueue = mails\nexec = t=echo $QUERN_TASK_ID >>ran\ndrain = true\n")
        self.ok("enqueue", "t", "--id", "one")
        self.assertEqual(self.task("one")["timeout_ms"], 30000)
        self.ok("work")
        self.assertEqual(self.read("ran"), "one\n")

    # --- places ----------------------------------------------------------------------------

    def test_file_is_found_at_its_places(self):
        for name, host in (("u/quern/quern.conf", "u"), ("s/quern.conf", "s"), ("named", "n"),
                           (".config/quern/quern.conf", "h"), ("s/other.conf", "o")):
            os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
            self.write(name, f"[work]\nhost = {host}\n")
        def host(*words, **env):
            return json.loads(self.ok(*words, "config", "show", "--json", "work", env=env))
        def of(document):
            return [one["value"] for one in document["values"] if one["name"] == "host"][0]
        user = {"XDG_CONFIG_HOME": self.path("u")}
        service = {"CONFIGURATION_DIRECTORY": self.path("s") + ":/nowhere"}
        self.assertEqual(of(host()), "h")
        self.assertEqual(of(host(**user)), "u")
        self.assertEqual(of(host(**user, **service)), "s")
        self.assertEqual(of(host(**user, QUERN_CONFIG=self.path("named"))), "n")
        self.assertEqual(of(host("--config", "s/other.conf", QUERN_CONFIG="named")), "o")
        self.assertEqual(of(host("--config", "other.conf", **service)), "o")
        none = host("--config", "")
        self.assertEqual((of(none), none["file"]), (None, None))
        self.assertIsNone(of(host(QUERN_CONFIG="")))

    def test_named_file_must_be_there_and_be_ours(self):
        self.assertIn("quern: stats: nowhere: No such file",
                      self.fails(EXIT_CONFIG, "stats", "--config", "nowhere"))
        self.assertIn("it is not a regular file", self.fails(EXIT_CONFIG, "stats", "--config", "."))
        self.configure("json = true\n")
        for mode in (0o622, 0o660):
            os.chmod(self.path("quern.conf"), mode)
            self.assertIn("quern.conf: others may write to it; chmod go-w it",
                          self.fails(EXIT_CONFIG, "stats"))
        self.assertIn("usage: quern stats", self.ok("stats", "--help"))
        self.assertIn("quern", self.ok("--version"))
        self.assertIn("complete", self.ok("completion", "bash"))

    def test_file_with_a_password_is_for_its_owner_alone(self):
        self.configure("[context a]\nbroker = redis://user:secret@localhost:1\n")
        os.chmod(self.path("quern.conf"), 0o644)
        if os.geteuid() != 0:
            message = self.fails(EXIT_CONFIG, "config", "check")
            self.assertIn("it has a password: every user may read it; chmod 600 it", message)
        os.chmod(self.path("quern.conf"), 0o600)
        self.ok("config", "check")
        shown = self.ok("--context", "a", "config", "show")
        self.assertIn("redis://user:***@localhost:1", shown)
        self.assertNotIn("secret", shown)
        self.configure("[context a]\nbroker = redis://localhost:1\npassword = secret\n")
        for words in ([], ["--json"]):
            shown = self.ok("--context", "a", "config", "show", *words)
            self.assertIn("redis://localhost:1?password=***", shown)
            self.assertNotIn("secret", shown)

    def test_large_file_is_refused(self):
        self.configure("# " + "x" * (256 << 10))
        self.assertIn("has more than 262144 bytes", self.fails(EXIT_CONFIG, "stats"))

    # --- faults ----------------------------------------------------------------------------

    def test_check_names_each_fault_by_its_line(self):
        cases = [
            ("concurrency = 3\n", 1, "an option of a verb stands in its section"),
            ("jsn = true\n", 1, "did you mean 'json'?"),
            ("[work]\nconcurency = 3\n", 2, "'concurency'; did you mean 'concurrency'"),
            ("[work]\nconcurrency = x\n", 2, "--concurrency: 'x' is not a whole number"),
            ("[work]\nconcurrency = 1\nconcurrency = 2\n", 3, "--concurrency is given twice"),
            ("[work]\nquiet = maybe\n", 2, "--quiet: 'maybe' is not true or false"),
            ("[work]\nhost =\n", 2, "--host: it has no value"),
            ("[work]\nlease = 1 parsec\n", 2, "--lease: "),
            ("[work]\nqueue = a\nqueue = b=0\n", 3, "--queue: the weight in 'b=0'"),
            ("[work]\nexec = a\n", 2, "--exec: 'a' is not PATTERN=COMMAND"),
            ("[work]\nlog-format = xml\n", 2, "--log-format: 'xml' is not text, logfmt or json"),
            ("[work]\ntimeout = a:=x\n", 2, "--timeout: "),
            ("[work]\nunknown = drop\n", 2, "--unknown: 'drop' is not leave"),
            ("[wrok]\n", 1, "there is no verb 'wrok'; did you mean [work]?"),
            ("[schedule]\n", 1, "[schedule] is no verb of quern"),
            ("[work\n", 1, "the head of a section has no ]"),
            ("[work] x\n", 1, "behind the ] of a section is more than a comment"),
            ("[work]\nhost\n", 2, "the line is not NAME = VALUE"),
            ("[work]\n= 3\n", 2, "unknown name ''"),
            ("[work]\n" + "x" * 300 + " = 3\n", 2, "the name is too long"),
            ("[work]\nhost = a\0b\n", 2, "the line has a NUL character"),
            ("[task delete]\nyes = true\n", 2, "'yes' is for the command line only"),
            ("[work]\nconfig = x\n", 2, "'config' is for the command line only"),
            ("[context a]\nca = x\n", 1, "[context a] has no broker"),
            ("[context a]\nbroker = a.db\nbroker = b.db\n", 3, "broker is given twice"),
            ("[context a]\nbroker = a.db\nca =\n", 3, "ca: it has no value"),
            ("context = b\n[context a]\nbroker = a.db\n", 1, "there is no [context b]"),
            ("[context a]\nbroker = redis://[\n", 1, "URL"),
            ("broker = a.db\ncontext = a\n[context a]\nbroker = b.db\n", 1, "exclude each other"),
            ("broker =\n", 1, "broker: it has no value"),
            ("broker = redis://u:secret@h:99999/0\n", 1, "the port must be a number"),
            ("broker = redsi://u:secret@h/0\n", 1, "unknown broker scheme \"redsi\""),
            ("[work]\nbroker = localhost:6379\n", 2, "a server is written redis://localhost"),
            ("broker = redis://h;sqlite:///a.db\n", 1, "holds only Redis servers"),
            ("[context a]\nbroker = redsi://h\n", 1, "unknown broker scheme \"redsi\""),
        ]
        for text, line, why in cases:
            with self.subTest(text=text):
                path = self.write("bad.conf", text)
                message = self.fails(EXIT_CONFIG, "config", "check", path)
                self.assertIn(f"quern: config check: {path}:{line}: ", message)
                self.assertIn(why, message)
                self.assertNotIn("secret", message)
                self.assertEqual(message.count("\n"), 1, message)
                document = json.loads(self.quern("config", "check", "--json", path).stdout)
                self.assertEqual((document["ok"], len(document["faults"])), (False, 1))

    def test_check_of_a_good_file(self):
        text = "\ufeff# all\njson = no\n[general] # more\nno_retry = 0\n[work] ; the worker\n" \
               "exec = *=true\nqueue = a=3\ntimeout = b:=3s\n[schedule run]\nzone = UTC\n" \
               "[context x]\nbroker = redis://h\npassword-file = pw\n" \
               "[context y]\nbroker = valkey://h;redis://i\n[context z]\nbroker = b.db\n" \
               "[stats]\nbroker = redis-sentinel://a,b:3/0?master=x\n[queue list]\njson = 1\n"
        path = self.write("good.conf", text)
        self.assertEqual(self.ok("config", "check", path), f"{path}: ok")
        self.assertEqual(self.json("config", "check", path),
                         {"file": path, "ok": True, "faults": []})
        self.assertIn("there is no configuration file", self.fails(EXIT_CONFIG, "config", "check"))
        self.assertIn("No such file", self.fails(EXIT_CONFIG, "config", "check", "nowhere"))

    def test_check_is_of_the_file_alone(self):
        path = self.write("bad.conf", "context = b\n[work]\nconcurrency = x\n")
        env = {"QUERN_WORK_CONCURRENCY": "3", "QUERN_BROKER": "a.db", "QUERN_WORK_HOST": "h"}
        message = self.fails(EXIT_CONFIG, "config", "check", path, env=env)
        self.assertIn(":3: --concurrency: 'x'", message)
        self.assertIn(":1: there is no [context b]", message)
        good = self.write("good.conf", "[work]\nconcurrency = 3\n")
        self.ok("config", "check", good, env={"QUERN_WORK_CONCURRENCY": "x"})

    def test_fault_of_another_section_harms_no_verb(self):
        self.configure(f"broker = {self.broker}\n[work]\nconcurrency = x\n[db info]\nwhat\n"
                       "[context b]\nx\n")
        self.ok("enqueue", "t")
        self.assertIn("quern.conf:3: --concurrency", self.fails(EXIT_CONFIG, "work"))
        self.assertIn("quern.conf:7: the line is not", self.fails(
            EXIT_CONFIG, "stats", "--context", "b", env={"QUERN_CONFIG": self.path("quern.conf")}))
        self.configure(f"broker = {self.broker}\n[wokr]\nconcurrency = 3\n")
        self.assertIn("did you mean [work]?", self.fails(EXIT_CONFIG, "stats"))

    def test_wrong_variable_is_named(self):
        env = {"QUERN_WORK_CONCURRENCY": "many"}
        self.assertIn("quern: work: QUERN_WORK_CONCURRENCY: --concurrency: 'many' is not",
                      self.fails(EXIT_CONFIG, "work", "--exec", "t=true", env=env))
        env = {"QUERN_WORK_QUEUE": "a=0"}
        self.assertIn("quern: work: QUERN_WORK_QUEUE: --queue: the weight in 'a=0'",
                      self.fails(EXIT_CONFIG, "work", "--exec", "t=true", env=env))
        self.assertIn("--queue: the weight in 'a=0'",
                      self.fails(EXIT_USAGE, "work", "--exec", "t=true", "--queue", "a=0", env=env))

    def test_confirmation_cannot_be_given_ahead(self):
        self.ok("enqueue", "t", "--broker", self.broker)
        self.fails(EXIT_USAGE, "task", "delete", "--all", "--state", "pending", "--broker",
                   self.broker, env={"QUERN_TASK_DELETE_YES": "true"})

    # --- contexts --------------------------------------------------------------------------

    def test_context_names_the_broker(self):
        other = "other.db"
        self.configure(f"context = main\n[context main]\nbroker = {self.broker}\n"
                       f"[context other]\nbroker = {other}\n")
        self.ok("enqueue", "t", "--id", "m")
        self.ok("enqueue", "t", "--id", "o", "--context", "other")
        self.assertTrue(os.path.exists(self.path(other)))
        self.assertEqual(self.state("m"), "pending")
        self.assertEqual(self.state("o"), "gone")
        in_other = {"QUERN_CONTEXT": "other"}
        self.assertIn("pending", self.ok("task", "inspect", "o", env=in_other))
        self.assertIn("pending", self.ok("task", "inspect", "m", "--context", "main", env=in_other))
        self.assertIn("pending", self.ok("task", "inspect", "m", "--broker", self.broker,
                                         env=in_other))
        self.assertIn("pending", self.ok("task", "inspect", "o", env={"QUERN_BROKER": other}))
        self.assertIn("pending", self.ok("task", "inspect", "m", env={"REDIS_URL": "redis://x:1"}))
        self.assertIn("QUERN_BROKER and QUERN_CONTEXT exclude each other",
                      self.fails(EXIT_CONFIG, "stats", env={**in_other, "QUERN_BROKER": other}))
        self.assertIn("--broker and --context exclude each other", self.fails(
            EXIT_USAGE, "stats", "--broker", other, "--context", "main"))
        self.assertIn("there is no [context mian]; did you mean 'main'?",
                      self.fails(EXIT_CONFIG, "stats", "--context", "mian"))
        self.assertIn("there is no configuration file", self.fails(
            EXIT_CONFIG, "stats", "--context", "main", "--config", ""))

    def test_context_is_the_url_with_its_parameters(self):
        os.mkdir(self.path("etc"))
        self.write("etc/pw file", "secret\n")
        os.chmod(self.path("etc/pw file"), 0o600)
        self.configure("[context a]\nbroker = redis://u@localhost:1/3?wait=1\n"
                       "password-file = pw file\nwait_ms = 5\n"
                       "[context b]\nbroker = redis://localhost:1\npasword-file = x\n",
                       "etc/quern.conf")
        path = self.path("etc/pw file").replace(" ", "%20")
        shown = json.loads(self.ok("config", "show", "--json", "--context", "a"))["values"]
        self.assertEqual([one["value"] for one in shown if one["name"] == "broker"],
                         [f"redis://u@localhost:1/3?wait=1&password_file={path}&wait_ms=5"])
        self.assertIn("localhost:1", self.fails(EXIT_BROKER, "stats", "--context", "a"))
        self.assertIn("pasword_file", self.fails(EXIT_CONFIG, "stats", "--context", "b"))

    def test_password_of_the_environment_and_of_completions(self):
        self.configure("[context a]\nbroker = redis://localhost:1\npassword-env = NO_SUCH\n"
                       f"[context b]\nbroker = {self.broker}\n")
        self.assertIn("there is no NO_SUCH in the environment",
                      self.fails(EXIT_CONFIG, "stats", "--context", "a"))
        self.ok("enqueue", "t", "--queue", "mails", "--context", "b")
        self.assertEqual(self.ok("completion", "queues", "--context", "b"), "mails")
        self.assertEqual(self.ok("completion", "contexts"), "a\nb")

    def test_show_is_a_table_and_wants_a_verb(self):
        self.configure(f"broker = {self.broker}\n")
        self.assertIn("quern.conf:1", self.ok("config", "show"))
        self.assertRegex(self.ok("config", "show", "schedule", "run", "--", "--zone", "UTC"),
                         r"zone +UTC +command line")
        self.assertIn("FILE is empty", self.fails(EXIT_USAGE, "config", "check", ""))
        self.assertIn("'help' is no verb that reads", self.fails(EXIT_USAGE, "config", "show",
                                                                 "help"))
        self.assertIn("unknown option '--what'", self.fails(
            EXIT_USAGE, "config", "show", "work", "--", "--what"))


if __name__ == "__main__":
    lib_cli.main()
