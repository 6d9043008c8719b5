"""JavaScript, by all its built-ins and operators, and jq; in each of the places where a definition holds a script."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Final

from cases import Case, batches, inline, task, workflow

DATA: Final[dict[str, Any]] = {
    "s": "Hello, World",
    "e": "",
    "n": 7,
    "d": 2.5,
    "z": 0,
    "neg": -3,
    "yes": True,
    "no": False,
    "nil": None,
    "l": [3, 1, 2],
    "t": ["b", "a", "c"],
    "o": {"a": 1, "b": {"c": [1, {"d": 2}]}},
    "rows": [{"k": "x", "v": 1}, {"k": "y", "v": 2}, {"k": "x", "v": 3}],
    "num": "42",
    "big": 12345678901,
    "empty": [],
    "none": {},
    "u": "äöü€𝄞",
}

_RECEIVERS: Final = {
    "$.s": """at(0)|at(-1)|at(99)|charAt(1)|charAt(99)|charCodeAt(1)|charCodeAt(99)|codePointAt(0)|concat('!')|concat(1, null)|endsWith('World')|endsWith('o', 5)
includes('World')|includes('x')|includes('H', 1)|indexOf('o')|indexOf('o', 5)|indexOf('x')|indexOf('')|lastIndexOf('o')|lastIndexOf('o', 5)|localeCompare('Hello')
match(/o/)[0]|match(/o/g)|match(/x/)|match(/(l+)(o)/).slice(0, 3)|matchAll(/o/g).next().value.index|normalize('NFD')|padEnd(15, '*')|padEnd(3)|padStart(15)|padStart(14, 'ab')
repeat(2)|repeat(0)|repeat(-1)|replace('o', '0')|replace(/o/g, '0')|replace(/(l)(o)/, '$2$1')|replace('o', x => x.toUpperCase())|replaceAll('o', '0')|replaceAll(/o/g, '$&$&')
search(/W/)|search('x')|slice(1, 4)|slice(-3)|slice(3, 1)|split(', ')|split('')|split()|split('', 3)|split(/[, ]+/)|split('l', 2)|startsWith('Hello')|startsWith('World', 7)
substring(1, 4)|substring(4, 1)|substring(-1)|substr(1, 3)|substr(-3, 2)|toLowerCase()|toUpperCase()|toLocaleUpperCase()|trim()|trimStart()|trimEnd()|toString()|valueOf()|length
anchor('x')|big()|isWellFormed()|toWellFormed()|codePointAt(99)|nothing()|nothing|[0]|[-1]|['length']|constructor.name|get(0)|size()|isEmpty()|contains('o')|containsKey('a')""",
    "$.u": "length|at(-1)|split('').length|toUpperCase()|charCodeAt(4)|codePointAt(4)|slice(3)|normalize('NFD').length|localeCompare('aou')|indexOf('€')|replace(/./gu, 'x')|padEnd(8, 'ß')",
    "$.l": """at(-1)|concat([4], 5)|copyWithin(0, 1)|every(x => x > 0)|every(x => x > 1)|fill(0)|fill(9, 1, 2)|filter(x => x > 1)|find(x => x > 1)|find(x => x > 9)|findIndex(x => x === 1)
findIndex(x => x > 9)|findLast(x => x > 1)|findLastIndex(x => x > 1)|flat()|flatMap(x => [x, x])|includes(2)|includes('2')|indexOf(2)|indexOf(9)|join()|join('-')|lastIndexOf(2)|map(x => x * 2)
map(String)|map((x, i) => i)|pop()|push(4)|reduce((a, b) => a + b)|reduce((a, b) => a + b, 10)|reduceRight((a, b) => a + '-' + b)|reverse()|shift()|slice(1)|slice(-2, -1)|some(x => x > 2)
some(x => x > 9)|sort()|sort((a, b) => b - a)|splice(1, 1)|splice(0, 2, 9)|toReversed()|toSorted()|toSpliced(0, 1)|with(0, 9)|unshift(0)|toString()|length|entries().next().value
keys().next().value|values().next().value|forEach(x => x)|map(parseInt)|map(x => [x, {x}])|toLocaleString()|constructor.name|hasOwnProperty(0)|[0]|[9]|['1']|size()|get(0)|contains(1)|isEmpty()""",
    "$.t": "sort()|join('')|indexOf('a')|reverse()|includes('a')|concat($.l)|map(x => x.toUpperCase())|toSorted((a, b) => a < b ? 1 : -1)|reduce((a, b) => a + b)|sort().slice(0, 2)|toString()",
    "$.n": """toFixed(2)|toString()|toString(2)|toString(36)|toPrecision(3)|toExponential(2)|valueOf()|toLocaleString()|toFixed()|constructor.name|x|x.y|length|get(0)|size()|isEmpty()""",
    "$.d": "toFixed(0)|toFixed(3)|toString()|toPrecision(1)|toExponential()|toString(2)",
    "$.o": """a|b.c|b.c[1].d|b.c[9]|x|x.y|x?.y|['a']|hasOwnProperty('a')|hasOwnProperty('x')|toString()|valueOf()|constructor.name|propertyIsEnumerable('a')|length|get('a')|size()|containsKey('a')|isEmpty()""",
    "$.rows": "map(r => r.v)|filter(r => r.k === 'x').length|reduce((a, r) => a + r.v, 0)|find(r => r.v === 2).k|sort((a, b) => b.v - a.v)[0].v|some(r => r.k == 'z')|[0].k|[9]?.k|length|size()|flatMap(r => [r.k, r.v])",
    "Math": """abs(-5)|acos(1)|acosh(1)|asin(1)|asinh(1)|atan(1)|atan2(1, 2)|atanh(0.5)|cbrt(27)|ceil(1.2)|clz32(1)|cos(0)|cosh(0)|exp(1)|expm1(1)|floor(-1.5)|fround(5.5)|hypot(3, 4)|imul(3, 4)|log(10)|log10(1000)
log1p(1)|log2(8)|max(1, 3, 2)|max()|min(1, 3, 2)|min()|pow(2, 10)|round(2.5)|round(-2.5)|round(2.4)|sign(-3)|sin(0)|sinh(1)|sqrt(2)|sqrt(-1)|tan(1)|tanh(1)|trunc(-4.7)|PI|E|LN2|LN10|LOG2E|LOG10E|SQRT2|SQRT1_2|max(...$.l)
min.apply(null, $.l)|max('3', 2)|max(1, 'x')|abs(null)|abs('x')|pow(0, 0)|pow(2, -1)|floor(1e20)|round(0.49999999999999994)""",
    "Number": """isInteger(5)|isInteger('5')|isNaN(NaN)|isFinite(5)|isSafeInteger(2 ** 53)|parseFloat('1.5x')|parseInt('12px', 10)|MAX_SAFE_INTEGER|MIN_SAFE_INTEGER|EPSILON|MAX_VALUE|MIN_VALUE|POSITIVE_INFINITY|NaN
('12')|('')|(' 12 ')|('0x1f')|('1e3')|(true)|(null)|([])|([5])|({})|('x')|(undefined)|prototype.constructor.name""",
    "String": "(1)|(null)|(undefined)|(true)|([1, 2])|({})|(1.0)|(1e21)|(-0)|fromCharCode(72, 105)|fromCodePoint(128512)|raw`a\\n`|(Symbol('x'))|(() => 1)|(1n)",
    "Object": """keys($.o)|values($.o)|entries($.o)|assign({}, $.o, {z: 1})|fromEntries([['a', 1]])|freeze({a: 1}).a|isFrozen($.o)|getOwnPropertyNames($.o)|is(NaN, NaN)|is(0, -0)|create({a: 1}).a|hasOwn($.o, 'a')
groupBy($.rows, r => r.k)|entries($.l)|keys('abc')|getPrototypeOf([]) === Array.prototype|isSealed({})|seal({a: 1})|preventExtensions({a: 1})|defineProperty({}, 'x', {value: 1}).x|getOwnPropertyDescriptor({a: 1}, 'a')""",
    "Array": "isArray($.l)|isArray('x')|isArray({})|from('abc')|from({length: 2}, (x, i) => i)|of(1, 2)|(3).length|(3).fill(0)|from(new Set([1, 1, 2]))|from($.l, x => x * 2)|prototype.slice.call($.l, 1)",
    "JSON": """stringify($.o)|stringify($.l)|stringify('x')|stringify(null)|stringify({a: undefined, b: null})|stringify([undefined])|stringify({a: 1}, null, 2)|stringify({a: 1, b: 2}, ['a'])|parse('{"a": [1]}')|parse('x')
parse('1')|parse('null')|stringify(1.0)|stringify(NaN)|stringify('ü"\\n')|parse('{"a": 1}').a|stringify(new Date(0))|stringify({n: 1e21})|parse('[1,2]', (k, v) => v)|stringify(stringify({}))""",
}

_OTHERS: Final = """
parseInt('42')|parseInt('0x1f')|parseInt('101', 2)|parseInt('x')|parseFloat('3.14abc')|isNaN('x')|isNaN('1')|isFinite('1')|encodeURIComponent('a b&ü')|decodeURIComponent('%C3%BC')|encodeURI('a b?x=1&y=ü')|escape('ü a')|unescape('%FC')
typeof 1|typeof 'x'|typeof null|typeof undefined|typeof {}|typeof []|typeof (() => 1)|typeof Symbol()|typeof 1n|typeof nothing|typeof $.l|typeof $.o|typeof $.nil|typeof $.x|typeof NaN|typeof $.n|typeof $
void 0|null|undefined|NaN|Infinity|-Infinity|-0|1.0|1e3|1e21|0.1 + 0.2|0xff|0b11|0o17|1_000|2 ** 53|9007199254740993|1n|10n ** 3n|'x'|`a${$.n}b`|/x/|/(a)(b)?/.exec('a')|[]|[1, , 3]|[null, undefined]|{}|({})|({a: undefined})|({a: null})
new Date(0).toISOString()|new Date(0).getTime()|new Date('2020-01-02T03:04:05Z').getTime()|new Date('2020-01-02').getTime()|Date.UTC(2020, 0, 1)|new Date(2020, 0, 1).getUTCFullYear()|new Date('x').getTime()|new Date(86400000).toJSON()|new Date(NaN).getTime()
new Date(0).getUTCDay()|new Date(1e12).getUTCHours()|new Date(0)|typeof Date.now()|new Date(0).toUTCString()|new Date(1577934245678).toISOString().slice(0, 10)|new Set([1, 1]).size|[...new Set($.l)]|new Map([['a', 1]]).get('a')|[...new Map([['a', 1]])]
new Set([1])|new Map([['a', 1]])|new WeakMap() instanceof WeakMap|Symbol('x').toString()|Symbol.iterator in []|(function () { return arguments.length })(1, 2)|(x => x * 2)(4)|((a, b = 2) => a + b)(1)|((...r) => r.length)(1, 2, 3)|(() => ({x: 1}))()
(({a}) => a)($.o)|(([x, y]) => y)($.l)|[...$.l, 4]|({...$.o, z: 1})|Object.entries($.o).map(([k, v]) => k)|(function f(n) { return n < 2 ? n : f(n - 1) + f(n - 2) })(10)|new (class { x = 1 })().x|class A { static x = 1 }|(() => { class A { get y() { return 2 } } return new A().y })()
(() => { let x = 0; for (let i = 0; i < 3; i++) x += i; return x })()|(() => { for (const k in $.o) return k })()|(() => { for (const v of $.l) if (v < 3) return v })()|(() => { let i = 0; while (true) { if (++i > 3) break } return i })()|(() => { do { var x = 1 } while (false); return x })()
(() => { switch ($.n) { case 7: return 'seven'; default: return 'other' } })()|(() => { try { throw new Error('x') } catch (e) { return e.message } finally {} })()|(() => { try { null.x } catch (e) { return e instanceof TypeError } })()|(() => { label: for (;;) { break label } return 1 })()
$.nil ?? 'd'|$.x ?? 'd'|$.z ?? 'd'|$.z || 'd'|$.e || 'd'|$.yes && 'x'|$.no && 'x'|!$.l|!$.empty|!!$.none|!$.nil|!$.x|!'0'|~5|+'5'|-'5'|+[]|+{}|+true|+null|+undefined|$.n++|$.n--|++$.n|($.n += 1)|(1, 2)|1 < 2 < 3|3 > 2 > 1|'b' > 'a'|'10' < '9'|10 < '9'
$.l instanceof Array|$.o instanceof Object|'a' in $.o|'x' in $.o|0 in $.l|delete $.o.a|$.s.length > 5 ? 'long' : 'short'|$.l.length === 3|$['s']|$.o['b']['c'][0]|$.o?.b?.c?.[1]?.d|$.x?.y.z|$.x.y|nothing|nothing.x|$.s()|null.x|undefined.x|throw1()|JSON
[1, 2, 3].includes(2) ? 'y' : 'n'|[10, 9, 1].sort()|[3, undefined, 1].sort()|['a', 'B', 'c'].sort()|[[1, [2, [3]]]].flat(Infinity)|[1, 2, 3] + ''|[1] == 1|[] + []|[] + {}|({}) + []|[1, 2] == '1,2'|null == undefined|null == 0|NaN == NaN|'' == 0|'1' == 1|true == 1|true === 1
new Uint8Array([1, 2, 300])|new Uint8Array(2).length|new Float64Array([1.5])[0]|new ArrayBuffer(4).byteLength|[..."añ"].length|'a-b-c'.split('-').map(x => x.toUpperCase()).join('+')|/^\\d+$/.test($.num)|/(?<y>\\d{4})/.exec('in 2020').groups.y|'aBc'.replace(/[A-Z]/g, m => '_' + m.toLowerCase())|'x'.match(/y/)?.[0]
/a/gi.flags|new RegExp('a+', 'g').source|'2020-01-02'.match(/(\\d+)-(\\d+)/).slice(1)|/a.c/s.test('a\\nc')|/(?<=a)b/.test('ab')|/\\p{L}/u.test('ü')|'aaa'.lastIndexOf('a')|Number($.num) + 1|$.num + 1|$.num * 1|$.num - 1|$.n / 2|$.n % 4|-7 % 4|7 / 0|$.n ** 2|5 & 3|5 | 3|5 ^ 3|1 << 31|1 << 32|-1 >>> 0|-1 >> 1
Promise.resolve(1) instanceof Promise|typeof setTimeout|typeof require|typeof process|typeof globalThis|typeof window|typeof console|typeof print|typeof load|typeof Java|typeof Packages|typeof Polyglot|typeof eval|typeof Function|typeof WeakRef|typeof Intl|typeof structuredClone|typeof Atomics|typeof SharedArrayBuffer|typeof performance|typeof BigInt
Reflect.ownKeys($.o)|Reflect.has({a: 1}, 'a')|new Proxy({}, {get: () => 5}).x|structuredClone({a: 1})|(function* () { yield 1 })().next().value|[...(function* () { yield 1; yield 2 })()]|Object.keys($)|Object.keys($.l)|$.big + 1|$.big * $.big|$.d + 0.5|$.d * 2|$.d + $.d|$.l.length / 3|2.0|$.n * 1.0|5 / 2|6 / 2|Math.round($.d)
"""

VALUES: Final = (
    "1",
    "0",
    "'1'",
    "''",
    "'a'",
    "null",
    "undefined",
    "true",
    "false",
    "NaN",
    "[]",
    "[1]",
    "({})",
    "$.nil",
    "$.n",
    "$.l",
    "1.5",
    "-0",
)
OPERATORS: Final = (
    "+",
    "-",
    "*",
    "/",
    "%",
    "**",
    "==",
    "!=",
    "===",
    "!==",
    "<",
    ">",
    "<=",
    ">=",
    "&&",
    "||",
    "??",
    "&",
    "|",
    "^",
    "<<",
    ">>",
    ">>>",
)

JQ: Final = """
.|.s|.o|.o.a|.o.b.c[1].d|.x|.x.y|.l|.l[]|.l[0]|.l[-1]|.l[9]|.l[1:]|.l[:-1]|.s[0:3]|.rows[].v|.rows|.[\"s\"]|.o[\"a\"]|.l | length|.s | length|.o | length|.nil | length|.n | length|.rows | map(.v)|[.rows[] | select(.k == \"x\") | .v]|.rows | map(.v) | add
.l | add|.t | add|[] | add|.l | sort|.t | sort|.rows | sort_by(.v) | reverse|.rows | group_by(.k)|.rows | unique_by(.k)|.rows | min_by(.v)|.rows | max_by(.v)|.l | min|.l | max|.l | reverse|.l | any(. > 2)|.l | all(. > 2)|.l | index(1)|.l | contains([1])|.l | inside([1,2,3,4])
.l | first|.l | last|.l | nth(1)|.l | join(\"-\")|.t | join(\",\")|.s | split(\", \")|.s | test(\"World\")|.s | match(\"o\").offset|[.s | scan(\"o\")]|.s | sub(\"o\"; \"0\")|.s | gsub(\"o\"; \"0\")|.s | ascii_downcase|.s | ascii_upcase|.s | explode | implode|.s | ltrimstr(\"He\")|.s | rtrimstr(\"ld\")|.s | startswith(\"He\")|.s | endswith(\"ld\")
.s + \"!\"|.n + 1|.n - 1|.n * 2|.n / 2|.n % 4|.d + .d|.n / 0|.l + [4]|.l - [1]|.o + {z: 1}|.o * {b: {x: 1}}|.s * 2|.nil + 1|.n == 7|.n != 7|.n > 5 and .yes|.no or .yes|.no | not|.x // \"d\"|.nil // 1|.no // 2|.z // 3|if .n > 5 then \"big\" else \"small\" end|if .yes then 1 end|if .x then 1 elif .yes then 2 else 3 end
.o | keys|.o | keys_unsorted|.o | to_entries|.o | with_entries(.value = 1)|{a: 1} | to_entries|[{key: \"k\", value: 1}] | from_entries|.o | has(\"a\")|.l | has(5)|.o | del(.a)|.o | paths|[.o | paths]|[.o | leaf_paths]|.o | getpath([\"b\", \"c\"])|.o | setpath([\"a\"]; 9)|.o | to_entries | map(.key)|.o.a = 5|.o.a |= . + 1|.l[] += 1|.l |= map(. * 2)
.n | tostring|.num | tonumber|.s | tonumber|.o | tojson|\"[1,2]\" | fromjson|.n | type|.s | type|.nil | type|.l | type|.o | type|.yes | type|[.[] | type]|.d | floor|.d | sqrt|.d | ceil|.n | pow(.; 2)|.n | log|[range(3)]|[range(1; 4)]|[limit(2; .l[])]|first(.l[])|[.l[] | if . > 1 then . else empty end]|reduce .l[] as $x (0; . + $x)|[foreach .l[] as $x (0; . + $x)]|. as $d | $d.n|.l as [$a, $b] | $a + $b
[recurse(.o)] | length|.. | numbers|[.. | numbers]|[.o | ..]|.o | flatten|.l | flatten|[[1, [2]]] | flatten|[[1, [2]]] | flatten(1)|.l | tojson|@base64 \"x\\(.s)\"|.s | @base64|.s | @uri|.t | @csv|.t | @tsv|.s | @html|.s | @json|.s | @sh|.s | ascii|.l | transpose|[[1, 2], [3]] | transpose|.l | combinations|.s | ascii_downcase | explode | length|.s | ltrimstr(1)|splits(\"a\")|[.s | splits(\", \")]
try error(\"x\") catch .|try .s.x catch \"no\"|.s.x?|error(\"bad\")|.[|nothing|.l | map(tostring)|.l | map(select(. > 1))|.l | map(. as $x | {x: $x})|{s, n}|{(.s): .n}|{\"a b\": 1}|{a: .l[]}|[.l[], .t[]]|.l | @text|\"\\(.n) and \\(.s)\"|null|true|1|1.0|1.5|\"x\"|[]|{}|[1, \"a\", null]|empty|., .|.n, .s|def f(x): x * 2; f(.n)|.l | length as $n | $n|input|now | type|env | type|$ENV | type|$__loc__|.l | tostream|[.l | tostream]|[.o | tostream]
.l | until(length < 2; .[1:])|[.n | while(. > 1; . / 2)]|[.n | repeat(. - 1; . > 5)]|.n | isnan|infinite|nan | isnan|.l | bsearch(2)|.s | test(\"hello\"; \"i\")|.s | capture(\"(?<first>\\\\w+)\")|.rows | INDEX(.k)|.rows[0] | to_entries[0].key|.t | sort_by(.)|.l | @json|.s | utf8bytelength|.u | length|.u | explode|0 | todate|\"1970-01-01T00:00:00Z\" | fromdate|0 | strftime(\"%Y\")|0 | gmtime|walk(if type == \"number\" then . + 1 else . end)|.l | walk(.)|ltrimstr(\"x\")|.o | map_values(1)|.l | map_values(. + 1)|splits|.l | indices(1)|.s | indices(\"o\")|.s | index(\"o\")|.s | rindex(\"o\")|limit(1; .l[])|isvalid(.x)|.l | add / length|getpath([\"x\", \"y\"])|.big|.big + 1|12345678901234567890|.d | round|.l | min_by(.)|.s | trim|.l | pick(.[0])|.l | have_literal_numbers|abs|toarray|.l | debug|halt_error|input_line_number|ascii|@json|splits(1)|getpath(1)|.l | limit(0; .[])|.l | first(.[])|tojson | fromjson | .n|$x|.l | group_by(. > 1)|.l | unique|ltrimstr|.rows | map({(.k): .v}) | add|.rows | map(.v) | [.[] | . * .]|[.rows[] | .k] | unique | length
"""


def _split(text: str) -> list[str]:
    # jq and JavaScript know `|` and `||` too: what parts two expressions here has no blank around it.
    marked = text.strip().replace("\n", "\x00").replace(" | ", "\x01").replace("||", "\x02").replace("|=", "\x03")
    found = (each for line in marked.split("\x00") for each in line.split("|"))
    plain = (each.replace("\x01", " | ").replace("\x02", "||").replace("\x03", "|=").strip() for each in found)
    return list(dict.fromkeys(each for each in plain if each))


def javascript() -> list[str]:
    """Calls of built-ins, other expressions, and every operator over values of every kind."""
    calls = [f"{owner}{'' if each[0] in '([`' else '.'}{each}" for owner, text in _RECEIVERS.items() for each in _split(text)]
    pairs = [f"{one} {operator} {other}" for operator, one, other in itertools.product(OPERATORS, VALUES, VALUES)]
    return list(dict.fromkeys([*calls, *_split(_OTHERS.replace("\\\\", "\\")), *pairs]))


def _many(name: str, texts: Sequence[str]) -> Case:
    """Many expressions in one script, each told whatever the others do."""
    told = ", ".join(
        f"v{index}: (function () {{ try {{ return ({text}) }} catch (error) {{ return 'threw ' + error.name }} }})()"
        for index, text in enumerate(texts)
    )
    return Case(
        name=name,
        workflows=[workflow(inline("i", f"({{{told}}})", **DATA))],
        parts={
            f"{place}.v{index}": text
            for index, text in enumerate(texts)
            for place in ("tasks.i#0.outputData.result", "output.result")
        },
        items=texts,
        made_of=_many,
    )


def _each(name: str, texts: Sequence[str]) -> Case:
    """Each in an INLINE of its own, over the values as Conductor passes them."""
    tasks = [inline(f"i{index}", text, optional=True, **DATA) for index, text in enumerate(texts)]
    parts = {f"tasks.i{index}#0": text for index, text in enumerate(texts)}
    return Case(name=name, workflows=[workflow(*tasks, task("z", "NOOP"))], parts=parts, items=texts, made_of=_each)


def _choices(name: str, texts: Sequence[str]) -> Case:
    """Each as the expression of a SWITCH."""
    tasks = [
        task(
            f"s{index}",
            "SWITCH",
            evaluatorType="javascript",
            expression=text,
            inputParameters=DATA,
            optional=True,
            decisionCases={"true": [task(f"y{index}", "NOOP")]},
            defaultCase=[task(f"n{index}", "NOOP")],
        )
        for index, text in enumerate(texts)
    ]
    parts = {f"tasks.{event}{index}#0": text for index, text in enumerate(texts) for event in "syn"}
    return Case(name=name, workflows=[workflow(*tasks, task("z", "NOOP"))], parts=parts, items=texts, made_of=_choices)


def _lambdas(name: str, texts: Sequence[str]) -> Case:
    """Each as the script of a LAMBDA."""
    tasks = [
        task(f"l{index}", "LAMBDA", inputParameters={"scriptExpression": f"return {text}", **DATA}, optional=True)
        for index, text in enumerate(texts)
    ]
    parts = {f"tasks.l{index}#0": text for index, text in enumerate(texts)}
    return Case(name=name, workflows=[workflow(*tasks, task("z", "NOOP"))], parts=parts, items=texts, made_of=_lambdas)


def _jq(name: str, texts: Sequence[str]) -> Case:
    """Each as the query of a JSON_JQ_TRANSFORM."""
    tasks = [
        task(f"j{index}", "JSON_JQ_TRANSFORM", inputParameters={"queryExpression": f".d | {text}", "d": DATA}, optional=True)
        for index, text in enumerate(texts)
    ]
    parts = {f"tasks.j{index}#0": text for index, text in enumerate(texts)}
    return Case(name=name, workflows=[workflow(*tasks, task("z", "NOOP"))], parts=parts, items=texts, made_of=_jq)


def cases() -> list[Case]:
    """All of them in one place, every so manieth in the others."""
    scripts, others = javascript(), _split(_OTHERS.replace("\\\\", "\\"))
    return [
        *batches("javascript/many", scripts, 100, _many),
        *batches("javascript/inline", [*others, *scripts[::9]], 20, _each),
        *batches("javascript/switch", others[::2], 12, _choices),
        *batches("javascript/lambda", others[1::4], 20, _lambdas),
        *batches("jq/query", _split(JQ.replace('\\"', '"').replace("\\\\", "\\")), 20, _jq),
    ]
