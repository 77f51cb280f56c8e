#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The judge of tests of failovers (lib_terms.py): which lost tasks a failover explains, and which
pause counts."""

import unittest

import lib_cli
from lib_terms import LAG_S, Term, Terms


def terms_of(*terms):
    made = Terms.__new__(Terms)  # without nodes
    made.list = list(terms)
    return made


def term(before=None, ids=(), begun=0.0, **moments):
    made = Term(None, before, set(ids), 0)
    made.begun = begun
    vars(made).update(moments)
    return made


class TermsTest(unittest.TestCase):
    def explained(self, terms, sent, name="lost"):
        return terms.lacked_by(name, sent, sent + 0.1)

    def test_lost_is_what_the_replica_lacked_of_the_last_moment(self):
        first = term(begun=0.0, failed=100.0)
        terms = terms_of(first, term(first, ["kept"], begun=102.0, followed=101.0))
        self.assertEqual(self.explained(terms, 99.9), [1])
        self.assertEqual(self.explained(terms, 99.9, "kept"), [])  # it had this one
        self.assertEqual(self.explained(terms, 100.0 - LAG_S - 1), [])  # before that it followed
        self.assertEqual(self.explained(terms, 100.5), [])  # the old one stored nothing more

    def test_a_replica_that_was_frozen_lacks_more(self):
        first = term(begun=0.0, lagged=90.0, failed=100.0)
        terms = terms_of(first, term(first, begun=102.0, followed=101.0))
        self.assertEqual(self.explained(terms, 91.0), [1])
        self.assertEqual(self.explained(terms, 90.0 - LAG_S - 1), [])

    def test_a_replica_that_never_followed_may_lack_all(self):
        first = term(begun=0.0, failed=40.0)
        second = term(first, begun=50.0, followed=40.0, failed=100.0)
        terms = terms_of(first, second, term(second, begun=102.0))
        self.assertEqual(self.explained(terms, 51.0), [2])
        self.assertEqual(self.explained(terms, 50.0 - LAG_S - 1), [])

    def test_a_master_that_was_replaced_stores_until_it_is_a_replica(self):
        first = term(begun=0.0, demoted=105.0)
        terms = terms_of(first, term(first, begun=102.0, followed=101.9))
        self.assertEqual(self.explained(terms, 104.0), [1])
        self.assertEqual(self.explained(terms, 105.1), [])
        self.assertEqual(self.explained(terms, 101.9 - LAG_S - 1), [])

    def test_each_master_counts_that_finished_nothing(self):
        terms = [term(begun=10.0, finished=10.5), term(begun=20.0), term(begun=23.0, finished=24.0)]
        self.assertEqual(Terms.longest_pause_s(terms), 3.0)
        self.assertEqual(Terms.longest_pause_s(terms[2:]), 1.0)


if __name__ == "__main__":
    lib_cli.main()
