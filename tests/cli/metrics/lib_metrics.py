# SPDX-License-Identifier: MIT
"""Reads metrics in the text format of Prometheus and in OpenMetrics, strictly: a line that neither
knows fails the test that asked."""

import contextlib
import http.client
import re

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
SAMPLE = re.compile(rf"({NAME})(?:\{{(.*)\}})? (-?[0-9.e+-]+|\+Inf|NaN)$")
LABEL = re.compile(rf'({NAME})="((?:[^"\\\n]|\\[\\"n])*)"(?:,|$)')
SUFFIXES = ("_bucket", "_sum", "_count", "_total", "_created", "_info")


def scrape(port, accept=None):
    """What a server on this machine answers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, 60)
    with contextlib.closing(connection):
        connection.request("GET", "/metrics", headers={"Accept": accept} if accept else {})
        answer = connection.getresponse()
        assert answer.status == 200, answer.status
        return answer.read().decode()


def unescape(value):
    return re.sub(r"\\(.)", lambda match: "\n" if match[1] == "n" else match[1], value)


def read_labels(text):
    labels = {}
    while text:
        match = LABEL.match(text)
        assert match and match[1] not in labels, text
        labels[match[1]] = unescape(match[2])
        text = text[match.end():]
    return labels


class Metrics:
    """heads: family to {"TYPE": ..., "HELP": ...}; samples: (name, set of labels) to value."""

    def __init__(self, text, is_open=False):
        self.heads, self.samples = {}, {}
        lines = text.split("\n")
        assert lines.pop() == "", "the last line has no end"
        if is_open:
            assert lines.pop() == "# EOF"
        family = None
        for line in lines:
            if line.startswith("#"):
                word, family, rest = line[2:].split(" ", 2)
                assert word in (("HELP", "TYPE", "UNIT") if is_open else ("HELP", "TYPE")), line
                assert self.heads.setdefault(family, {}).setdefault(word, rest) == rest, line
            else:
                self.add(line, family)

    def add(self, line, family):
        match = SAMPLE.match(line)
        assert match, line
        name, labels = match[1], frozenset(read_labels(match[2] or "").items())
        bases = [name, *(name[:-len(suffix)] for suffix in SUFFIXES if name.endswith(suffix))]
        assert family in bases, f"{line} stands below {family}"
        assert (name, labels) not in self.samples, f"{line} is there twice"
        self.samples[name, labels] = float(match[3])

    def get(self, name, default=None, **labels):
        return self.samples.get((name, frozenset(labels.items())), default)

    def names(self):
        return {name for name, _ in self.samples}

    def sum(self, name, **labels):
        """Of all series of that name with these labels, and others."""
        return sum(value for (other, pairs), value in self.samples.items()
                   if other == name and set(labels.items()) <= pairs)

    def check_histograms(self):
        """Buckets grow, the last is +Inf, and its number is that of _count. How many there are."""
        series = {}
        for (name, labels), value in self.samples.items():
            if name.endswith("_bucket"):
                bound = dict(labels)["le"]
                rest = frozenset(pair for pair in labels if pair[0] != "le")
                series.setdefault((name[:-len("_bucket")], rest), []).append((float(bound), value))
        for (name, labels), buckets in series.items():
            assert buckets == sorted(buckets) and buckets[-1][0] == float("inf"), name
            assert all(a[1] <= b[1] for a, b in zip(buckets, buckets[1:])), name
            assert self.samples[name + "_count", labels] == buckets[-1][1], name
            assert (name + "_sum", labels) in self.samples, name
        return len(series)
