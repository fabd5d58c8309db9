"""Every op: what it takes, what it gives, and what it means.

The meaning here is the contract of the reference interpreter, the executor and every pass.
An op whose `is_pure` is set depends on its operands alone, so it may be folded, merged,
moved and dropped. `lm.*` ops are pure as well: a call is decided by its state, parameters
and key; they are listed apart because folding cannot compute them.
"""

from dataclasses import dataclass, field

from lmc.ir.types import BOOL, EFFECT, META, PY, STATE, TEXT, Type, list_of


@dataclass(frozen=True, slots=True)
class OpSpec:
    """Shape of one op; a None type stands for any; `rest` allows more operands of any type.

    `results` of None means: decided by the op's blocks or attributes.
    """

    name: str
    doc: str
    operands: tuple[Type | None, ...] = ()
    rest: bool = False
    results: tuple[Type | None, ...] | None = ()
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    blocks: int = 0
    is_pure: bool = False
    is_terminator: bool = False


SPECS: dict[str, OpSpec] = {}


@dataclass(slots=True)
class _Group:
    """Registers specs under a common prefix."""

    prefix: str
    made: list[OpSpec] = field(default_factory=list)

    def add(self, name: str, doc: str, **shape: object) -> None:
        spec = OpSpec(f"{self.prefix}.{name}", doc, **shape)  # type: ignore[arg-type]
        SPECS[spec.name] = spec


_lm = _Group("lm")
_lm.add(
    "prompt",
    "The root state of the running program: no text, no variables; opens with the tokenizer's "
    "start ids. Its lineage is that of the running call. With a state as operand (made by "
    "inline): the root of a program called from that state, whose lineage is the state's plus "
    "'call<ordinal>'; needs nothing else of it.",
    rest=True,
    results=(STATE,),
)
_lm.add(
    "prologue",
    "Made by hoist-prefix: equals lm.prompt followed by the ops that `pieces` lists (['text', t], "
    "['begin', role], ['end', role], ['control', token]). The runtime computes each distinct one "
    "once per process and pins it. Where pieces were moved ahead of a fork or loop, the first "
    "`told` of them are the root's own; streams show these here only with `tells`, else with "
    "another way on from the root. Its operand is that of lm.prompt.",
    rest=True,
    results=(STATE,),
    required=("pieces",),
    optional=("told", "tells"),
)
_lm.add(
    "extend",
    "Append text. Text appended between two calls is one run, encoded as one string. A value "
    "that is not a str is an error. `hoisted`, as in begin, end and control: moved ahead of a "
    "fork, so streams show it with the children that go on from here.",
    operands=(STATE, None),
    results=(STATE,),
    optional=("hoisted",),
)
_lm.add(
    "begin",
    "Open a turn: what the chat template puts there.",
    operands=(STATE,),
    results=(STATE,),
    required=("role",),
    optional=("hoisted",),
)
_lm.add(
    "end",
    "Close the open turn of that role.",
    operands=(STATE,),
    results=(STATE,),
    required=("role",),
    optional=("hoisted",),
)
_lm.add(
    "control",
    "Append a control token by its spelling; unknown to the tokenizer is an error.",
    operands=(STATE,),
    results=(STATE,),
    required=("token",),
    optional=("hoisted",),
)
_lm.add(
    "image",
    "Append an image or a video (`kind`), by its path or bytes (second operand) and, of a video, "
    "the number of frames (third). A run of its own, like a control token; in a context it is one "
    "id made of the content's hash (see ir.media). In the text it is `<image>`. A file that cannot "
    "be read is an error.",
    operands=(STATE, None),
    rest=True,
    results=(STATE,),
    required=("kind",),
)
_lm.add(
    "unordered",
    "Begins or ends (`side`) a stretch of pieces whose order the author has left free, or parts "
    "two of them (side 'next'). Means nothing by itself: a pass of level C may put the pieces into "
    "another order.",
    operands=(STATE,),
    results=(STATE,),
    required=("side",),
)
_lm.add(
    "gen",
    "Generate. `params` are the decode parameters given in the source (fields of SamplingParams, "
    "n, seed, regex, type; see decode_params); those named in `dynamic` come as operands after the "
    "state, in that order ('name' may be among them). Unset ones take the run's defaults, then "
    "SamplingParams'. "
    "Results: the state with the generated run (the first of n samples) and the variable set; the "
    "value (str; a list of n for n > 1; parsed for type int/float/bool); the meta dict "
    "{finish_reason, matched_stop, complete, prompt_tokens, completion_tokens, token_ids, "
    "logprobs, and with log-probabilities those of call_meta} (a list of n for n > 1). Counts one "
    "ordinal of its lineage. `quiet`: streams do not show it, since the prompt goes on without it. "
    "`expected`: the tokens that a profile expects, and `skeleton`: what the constraint forces "
    "(see ir.skeleton); they mean nothing. "
    "`liveness`: {context: last, more or unknown, result: none, more or unknown}, whether other "
    "calls continue the prompt before and after, as the pass of that name found, and with a "
    "profile `remaining`, the tokens expected from here on; means nothing. "
    "`defaults` (made by inline): defaults of the program that it was written in, which stand "
    "before the run's.",
    operands=(STATE,),
    rest=True,
    results=(STATE, None, META),
    required=("params", "dynamic"),
    optional=("name", "quiet", "expected", "defaults", "skeleton", "liveness"),
)
_lm.add(
    "select",
    "Choose the likeliest of a list of strings (second operand) by `params` choices_method "
    "(default token_length_normalized), first wins ties. The text is appended as text. Meta: "
    "{choices, scores, logprobs, finish_reason, ...}, see call_meta. Counts one ordinal. "
    "`liveness` as in gen.",
    operands=(STATE, None),
    rest=True,
    results=(STATE, TEXT, META),
    required=("params", "dynamic"),
    optional=("name", "liveness"),
)
_lm.add(
    "again",
    "Made by cse: `%state, %after, %value, %meta`: equals the lm.gen or lm.select (`kind`) that "
    "gave the last three, asked on a state with the same context. That call is greedy, so its "
    "answer is this one's: the state gets the same ids and the variable `name` copies of value "
    "and meta, and counts one ordinal. A failure of the call at the place `first` is this op's, "
    "at its own place. `quiet` as in gen.",
    operands=(STATE, STATE, None, META),
    results=(STATE, None, META),
    required=("kind",),
    optional=("name", "quiet", "first"),
)
_lm.add(
    "fork",
    "Children with the parent's text and variables: `count` of them, or as many as the second "
    "operand says. Child i's lineage is the parent's plus 'fork<ordinal>.<i>', its ordinal starts "
    "at 0. First result: the parent, with one ordinal counted.",
    operands=(STATE,),
    rest=True,
    results=(STATE, list_of(STATE)),
    optional=("count",),
)
_lm.add(
    "group",
    "Made by batch-forks: `%parent, %child...` to the same children. Same values; tells the "
    "runtime to compute the parent's context before the children's next calls start.",
    operands=(STATE,),
    rest=True,
    results=None,
)
_lm.add(
    "foresee",
    "Made by speculate: the same state. Says what may follow the call behind it (`call`: lm.select "
    "or lm.gen), which makes a finite choice: `paths` of {choice: the text that the call gives, "
    "pieces: what is appended then, as in lm.prologue, ticks: calls counted on the way, share: how "
    "likely, gen: the attributes of the generation that comes next, and its place `at`}, but for "
    "choice and pieces where they are known. The runtime may compute it ahead; it never means "
    "anything.",
    operands=(STATE,),
    results=(STATE,),
    required=("call", "paths"),
)
_lm.add(
    "join",
    "Join children (second operand: list of states) into the parent. mode gather_variable: each "
    "variable that children have and the parent has not becomes a list over the children that "
    "have it. mode concate_and_append: the texts that the children added are appended to the "
    "parent in order as text; variables stay theirs.",
    operands=(STATE, None),
    results=(STATE,),
    required=("mode",),
)
_lm.add(
    "place",
    "Made by hoist-prefix: `%state, %place`: the first state, with the lineage and ordinal of the "
    "second, which is the same but for what passes have appended to the first ahead of a loop.",
    operands=(STATE, STATE),
    results=(STATE,),
)
_lm.add(
    "tick",
    "Count `n` ordinals: stands where a pass dropped calls.",
    operands=(STATE,),
    results=(STATE,),
    required=("n",),
)
_lm.add(
    "set",
    "Set a variable; the prompt is unchanged. Dynamic name: third operand.",
    operands=(STATE, None),
    rest=True,
    results=(STATE,),
    optional=("name",),
)
_lm.add(
    "get",
    "Read a variable by `name` or second operand; missing is an error that lists the names.",
    operands=(STATE,),
    rest=True,
    results=(PY,),
    optional=("name",),
)
_lm.add(
    "has",
    "Whether a variable is set, by `name` or second operand.",
    operands=(STATE,),
    rest=True,
    results=(BOOL,),
    optional=("name",),
)
_lm.add(
    "meta",
    "Meta dict of the call that set the variable `name` (or second operand).",
    operands=(STATE,),
    rest=True,
    results=(META,),
    optional=("name",),
)
_lm.add(
    "text",
    "The whole text of the state, template markers spelled out.",
    operands=(STATE,),
    results=(TEXT,),
)
_lm.add(
    "messages",
    "The closed turns, a template's default system turn too, as {'role', 'content'} dicts; their "
    "contents without leading blanks.",
    operands=(STATE,),
    results=(PY,),
)

_cf = _Group("cf")
_cf.add(
    "if",
    "Run the first block if the bool operand holds, else the second; results are the yields. "
    "`taken`: how often each arm was taken in the runs of a profile; means nothing.",
    operands=(BOOL,),
    results=None,
    optional=("taken",),
    blocks=2,
)
_cf.add(
    "for",
    "`%items, %init...`: the block's arguments are (item, carried...), it yields (go_on, "
    "carried...). Runs per item in order until the items end or go_on is False. Results: the last "
    "carried values.",
    operands=(None,),
    rest=True,
    results=None,
    blocks=1,
)
_cf.add(
    "while",
    "`%init...`: the block's arguments are the carried values, it yields (go_on, carried...). Runs "
    "at least once and again while go_on holds. Results: the last carried values.",
    rest=True,
    results=None,
    blocks=1,
)
_cf.add(
    "try",
    "`%effect, %init...`: run the block, which yields (effect, value...). Whatever fails in it, in "
    "functions that it calls as well, ends it there, in program order, model calls and pure host "
    "functions included. Results: what was raised, None if nothing was; the effect; per init what "
    "the last cf.save before the failure gave, else the init; the values, which nothing reads "
    "after a failure. Failures from before the block that an op in it meets end the run.",
    operands=(EFFECT,),
    rest=True,
    results=None,
    blocks=1,
)
_cf.add(
    "save",
    "Note values for the `slots` (positions among the inits) of the nearest cf.try around.",
    rest=True,
    required=("slots",),
)
_cf.add("yield", "End a block of a cf op.", rest=True, is_terminator=True)

_func = _Group("func")
_func.add(
    "call",
    "Run another program of the module: `%effect, %caller_state, args...` (one per parameter). "
    "The callee's lineage is the caller state's plus 'call<ordinal>'; it inherits the caller's "
    "sampling defaults, overridden by `defaults`. Results: effect, caller state with one ordinal "
    "counted, the callee's final state, its return value.",
    operands=(EFFECT, STATE),
    rest=True,
    results=(EFFECT, STATE, STATE, PY),
    required=("callee",),
    optional=("defaults",),
)
_func.add(
    "apply",
    "Run a helper function of the module: `%effect, args...` to what it returns: effect, value, "
    "and where it takes states or lists to change them, their new values.",
    operands=(EFFECT,),
    rest=True,
    results=None,
    required=("callee",),
)
_func.add(
    "return",
    "End a function: (effect, state, value), of a helper (effect, value, more values...).",
    operands=(EFFECT,),
    rest=True,
    is_terminator=True,
)

_host = _Group("host")
_host.add(
    "call",
    "Call an importable Python function, `callee` as 'module:qualname', with `%effect, positional"
    "..., keywords...`; `keywords` names the last operands, '*' and '**' those that are spread "
    "(see ir.arguments). Effectful calls keep their order.",
    operands=(EFFECT,),
    rest=True,
    results=(EFFECT, PY),
    required=("callee",),
    optional=("keywords",),
)
_host.add(
    "pure",
    "The same for a function declared free of effects.",
    rest=True,
    results=(PY,),
    required=("callee",),
    optional=("keywords",),
)
_host.add(
    "method",
    "Call a method of an object of unknown kind: `%effect, %object, args...`.",
    operands=(EFFECT, None),
    rest=True,
    results=(EFFECT, PY),
    required=("name",),
    optional=("keywords",),
)

_host.add(
    "matches",
    "Whether a raised exception is an instance of one of `classes`, by 'module:qualname'.",
    operands=(None,),
    results=(BOOL,),
    required=("classes",),
)

_val = _Group("val")
_val.add(
    "const",
    "A constant; each run gets its own copy.",
    results=(None,),
    required=("value",),
    is_pure=True,
)
_val.add(
    "undefined",
    "Stands for a name that no path assigned; any read of it is an error.",
    results=(PY,),
    required=("name",),
    is_pure=True,
)
_val.add(
    "concat", "Join texts (the parts of an f-string).", rest=True, results=(TEXT,), is_pure=True
)
_val.add(
    "format",
    "One field of an f-string: `conversion` ('', 's', 'r', 'a'); second operand: the format spec.",
    operands=(None, None),
    results=(TEXT,),
    required=("conversion",),
    is_pure=True,
)
_val.add(
    "binary",
    "Python's binary operator `op`: + - * / // % ** & | ^ << >>.",
    operands=(None, None),
    results=(None,),
    required=("op",),
    is_pure=True,
)
_val.add(
    "unary",
    "Python's unary operator `op`: - + ~.",
    operands=(None,),
    results=(None,),
    required=("op",),
    is_pure=True,
)
_val.add(
    "compare",
    "Python's comparison `op`: == != < <= > >= in, not in, is, is not.",
    operands=(None, None),
    results=(PY,),
    required=("op",),
    is_pure=True,
)
_val.add("truth", "bool(x).", operands=(None,), results=(BOOL,), is_pure=True)
_val.add("not", "not x.", operands=(None,), results=(BOOL,), is_pure=True)
_val.add("index", "x[i].", operands=(None, None), results=(None,), is_pure=True)
_val.add(
    "slice",
    "x[a:b:c]; absent parts are None.",
    operands=(None, None, None, None),
    results=(None,),
    is_pure=True,
)
_val.add(
    "attr",
    "x.name, for plain data attributes.",
    operands=(None,),
    results=(PY,),
    required=("name",),
    is_pure=True,
)
_val.add(
    "method",
    "x.name(args): a method of str, list, tuple, dict, set, int, float or re.Match "
    "that changes nothing.",
    operands=(None,),
    rest=True,
    results=(None,),
    required=("name",),
    optional=("keywords",),
    is_pure=True,
)
_val.add(
    "call",
    "A builtin or standard function without effects, from ir.evaluate.FUNCTIONS.",
    rest=True,
    results=(None,),
    required=("callee",),
    optional=("keywords",),
    is_pure=True,
)
_val.add(
    "mutate",
    "Copy a list, dict or set, call its method `name` (append, __setitem__, ...) on "
    "the copy. Results: the copy, the method's result.",
    operands=(None,),
    rest=True,
    results=(None, PY),
    required=("name",),
    optional=("keywords",),
    is_pure=True,
)
_val.add("list", "A list of the operands.", rest=True, results=(None,), is_pure=True)
_val.add("tuple", "A tuple of the operands.", rest=True, results=(PY,), is_pure=True)
_val.add("set", "A set of the operands.", rest=True, results=(PY,), is_pure=True)
_val.add(
    "dict",
    "A dict of operands key, value, key, value, ...",
    rest=True,
    results=(None,),
    is_pure=True,
)
_val.add(
    "unpack",
    "The items of a sequence, as many as there are results; another length is an error.",
    operands=(None,),
    results=None,
    is_pure=True,
)
