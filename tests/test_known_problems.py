"""Which test shows that a known problem of other systems is none here, problem by problem."""

import re
from functools import cache
from pathlib import Path

import pytest
from tokenizers_fetched import DATA

TESTS = Path(__file__).resolve().parent
LIST = DATA.parent / "cases.md"

CASES = {
    "runtime/test_cases.py": {
        "fork-before-any-text": "a_fork_before_any_text",
        "gen-with-n-inside-program": "n_samples_are_a_list_and_the_prompt_goes_on_with_the_first",
        "several-answers-per-request": "n_samples_are_a_list_and_the_prompt_goes_on_with_the_first",
        "async-run-never-returns-on-error": "an_awaited_run_with_too_long_a_prompt_raises_promptly",
        "append-gen-to-user-list": "a_generation_is_added_to_a_branchs_own_list",
        "escaped-quote-next-to-hole": "quotes_next_to_a_hole",
        "role-block-in-helper-ignored": "roles_within_a_helper",
        "constraint-compile-not-thread-safe": "constraints_compiled_by_many_threads",
        "explicit-zero-read-as-unset": "explicit_zeros_win_over_defaults",
        "stop-string-across-tokens": "a_stop_string_that_spans_tokens",
        "several-stops-only-one-applies": "of_several_stops_the_earliest_counts",
        "stop-together-with-minimum-length": "a_stop_together_with_a_minimum_length",
        "replacement-character-output-quadratic": "undecodable_output_flows_and_can_be_ended",
        "stop-pattern-inside-a-token": "a_stop_pattern_inside_a_token",
        "assistant-prefill": "the_models_turn_goes_on_from_what_the_program_has_begun",
    },
    "runtime/test_cases_engine.py": {
        "control-token-in-user-text": "control_tokens_that_users_or_models_write_stay_text",
        "leading-space-lost": "no_blank_is_lost_or_doubled",
        "space-marker-in-token-table": (
            "the_blank_marker_of_pieces_counts_as_a_blank_under_a_regex"
        ),
        "empty-prompt": "an_empty_prompt_harms_nobody",
        "echo-logprobs-for-likelihood": "a_prompts_likelihood_is_told_token_by_token",
        "seed-depends-on-neighbours": "a_seed_does_not_depend_on_neighbours",
        "bad-schema-stops-server": "bad_constraints_beside_a_good_call",
        "concurrent-same-schema-corrupts": "eight_calls_of_one_schema_at_once",
        "hash-collision-reuses-wrong-cache": (
            "prompts_of_equal_length_that_differ_anywhere_share_only_what_is_equal"
        ),
        "namespace-and-adapter-name-collide": "names_of_namespaces_are_kept_apart",
        "cache-kept-after-weight-change": "new_weights_find_nothing_of_the_old_ones",
        "waiting-for-constraint-blocks-admission": "a_constraint_that_fails_late_frees_its_place",
        "deep-nesting-overflows-stack": "many_nested_forks_need_no_deep_stack",
    },
    "runtime/test_running.py": {
        "batch-results-as-they-finish": "results_come_in_order_or_as_they_end",
    },
    "runtime/test_media.py": {
        "batch-gets-last-image": "each_request_of_a_batch_carries_its_own_image",
    },
    "runtime/test_constraint.py": {
        "multi-token-character-in-regex": "character_is_finished_before_anything_else",
    },
    "runtime/test_engine.py": {
        "model-vocab-wider-than-tokenizer": (
            "control_ids_and_ids_beyond_the_tokenizer_are_never_produced"
        ),
        "cached-token-count-exceeds-prompt": (
            "usage_counts_are_within_their_bounds_after_preemptions"
        ),
    },
    "runtime/test_engine_constraints.py": {
        "token-limit-with-regex": "a_limit_under_a_constraint_says_so",
    },
    "runtime/test_engine_ends.py": {
        "oversize-prompt-blocks-queue": (
            "a_call_that_can_never_fit_is_refused_and_the_rest_go_on"
        ),
    },
    "runtime/test_select_exact.py": {
        "choice-length-bias": "choices_by_exact_probabilities",
        "choice-conditional-probability": "choices_by_exact_probabilities",
    },
    "runtime/test_decode_values.py": {
        "prompt-logprobs-with-cached-prefix": "prompt_logprobs_beside_a_cached_prefix",
    },
    "runtime/test_radix_tree.py": {
        "tree-nodes-never-merged": "nodes_stay_in_proportion_to_the_cached_tokens",
    },
    "runtime/test_regex_generations.py": {
        "regex-runs-past-a-full-match": "finished_ones_match_and_cut_ones_say_so",
    },
    "runtime/test_models_weights.py": {
        "sliding-window-garbage-past-window": "a_sliding_window_of_a_gguf_file_is_refused",
        "extra-tensor-in-gguf": "rope_factors_of_a_gguf_file_are_used",
    },
    "cli/test_entry_points.py": {
        "same-program-two-entry-points": "the_same_bytes_by_every_way",
    },
    "frontend/test_typed_values.py": {
        "unbounded-value-loop": "incomplete_text_is_an_error_at_the_line",
    },
    "ir/test_automata.py": {
        "regex-empty-alternative": "language_of_small_patterns",
        "regex-unsupported-constructs": "refusals_name_construct_and_position",
        "regex-compile-explosion": "costly_patterns_are_ready_or_refused_in_time",
    },
    "ir/test_json_schema.py": {
        "huge-integer-bound": "what_a_schema_accepts",
        "const-enum-wrong-literals": "what_a_schema_accepts",
        "pattern-taken-as-full-match": "what_a_schema_accepts",
        "overlapping-property-patterns": "what_a_schema_accepts",
        "required-ignored": "what_a_schema_accepts",
        "invented-extra-fields": "separators_and_open_objects",
        "recursive-schema": "recursion_is_unrolled_in_linear_size",
    },
}  # fmt: skip
"""Tests by file and problem, without the `test_` of their names."""


@cache
def names_in(name: str) -> set[str]:
    """Return the names of the tests in a file."""
    text = (TESTS / name).read_text(encoding="utf-8")
    return set(re.findall(r"^(?:async )?def test_(\w+)\(", text, re.MULTILINE))


def test_the_tests_that_are_named_exist() -> None:
    named = {(name, test) for name, tests in CASES.items() for test in tests.values()}
    assert [(name, test) for name, test in sorted(named) if test not in names_in(name)] == []


@pytest.mark.skipif(not LIST.is_file(), reason=f"the list of problems is not at {LIST}")
def test_every_known_problem_has_a_test() -> None:
    listed = re.findall(r"^### (\S+)$", LIST.read_text(encoding="utf-8"), re.MULTILINE)
    named = [problem for tests in CASES.values() for problem in tests]
    assert sorted(named) == sorted(listed)
