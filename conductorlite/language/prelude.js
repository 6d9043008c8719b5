// What a script finds instead of the world: a clock and a chance that are given, nothing that tells of time, memory or chance
// otherwise, nothing that makes code of text (`$` must be known from the text), and the spellings of Java's collections.
// Evaluates to a function of the values, the script, the instant, four numbers of the seed, whether the last are needed, how
// many characters the result may have, what to say of a longer one, and what reads the values when they hold numbers for `wide.js`;
// it answers '=' and JSON text, or '!' and a JSON list of the error's words and where it was raised; before it '>', a JSON list of the
// lines that were printed and a line break, if there are any.
(function () {
  'use strict';
  const G = globalThis, run = eval, parse = JSON.parse, stringify = JSON.stringify, keys = Object.keys;
  const isArray = Array.isArray, define = Object.defineProperty, join = Array.prototype.join;
  const apply = Reflect.apply, construct = Reflect.construct, wellFormed = String.prototype.isWellFormed;
  const Range = RangeError, Type = TypeError, text = String, exec = RegExp.prototype.exec, OldDate = Date, OldBigInt = BigInt;
  const getOwn = Object.getOwnPropertyDescriptor, utc = Date.UTC, parseDate = Date.parse;
  const put = (owner, name, value) => define(owner, name, {__proto__: null, value, writable: true, configurable: true, enumerable: false});

  for (const kind of [function () {}, async function () {}, function* () {}, async function* () {}]) {
    put(Object.getPrototypeOf(kind), 'constructor', undefined);
  }
  for (const name of ['eval', 'Function', 'performance', 'Atomics', 'SharedArrayBuffer', 'WeakRef', 'FinalizationRegistry',
                      'queueMicrotask', 'print', 'console', 'load', 'navigator', 'gc', 'std', 'os', 'bjson', 'scriptArgs']) delete G[name];

  const cbrt = Math.cbrt, round = Math.round;
  put(Math, 'cbrt', {cbrt(value) {  // one step of Newton's nearer than the one that is built in
    const root = cbrt(value), near = root - (root * root * root - value) / (3 * root * root), whole = round(near);
    return near !== near || near === Infinity ? root : whole * whole * whole === +value ? whole : near;
  }}.cbrt);

  // QuickJS compares code units. The root collation, near enough: letters before accents before case, marks before digits before letters.
  const normalize = String.prototype.normalize, replace = String.prototype.replace, lower = String.prototype.toLowerCase;
  const test = RegExp.prototype.test, letter = /\p{L}/u, digit = /\p{N}/u, marks = /\p{M}+/gu;
  const rank = (sign) => apply(test, letter, [sign]) ? 2 : apply(test, digit, [sign]) ? 1 : 0;
  const order = (left, right) => {
    const a = [...left], b = [...right];
    for (let i = 0; i < a.length && i < b.length; i++) {
      if (a[i] !== b[i]) return rank(a[i]) - rank(b[i]) || (a[i] < b[i] ? -1 : 1);
    }
    return a.length - b.length;
  };
  put(String.prototype, 'localeCompare', {localeCompare(other) {
    const a = apply(normalize, text(this), ['NFD']), b = apply(normalize, text(other), ['NFD']);
    const lowA = apply(lower, a, []), lowB = apply(lower, b, []);
    const found = order(apply(replace, lowA, [marks, '']), apply(replace, lowB, [marks, ''])) || order(lowA, lowB) || -order(a, b);
    return found < 0 ? -1 : found > 0 ? 1 : 0;
  }}.localeCompare);

  // One locale: that of an American server. Another one, or an option that would be ignored, is refused.
  const american = (name, locale, options, known) => {
    if (locale !== undefined && locale !== 'en-US' && locale !== 'en') throw new Range(name + ' knows the locale en-US only, not ' + locale);
    const other = options === undefined ? undefined : keys(options).find((key) => !known.includes(key));
    if (other !== undefined) throw new Range(name + ' does not know the option ' + other);
  };
  const grouped = (digits) => apply(replace, digits, [/\B(?=(\d{3})+$)/g, ',']);
  // Rounded as the number is written, as the server does: 1.005 has two digits as 1.01.
  const decimal = (value, least, most) => {
    const sign = value < 0 || (value === 0 && 1 / value < 0) ? '-' : '';
    if (value !== value || value === Infinity || value === -Infinity) return value !== value ? 'NaN' : sign + '\u221e';
    const [mantissa, power] = ('' + Math.abs(value)).split('e'), [head, tail = ''] = mantissa.split('.'), shift = +power || 0;
    const all = shift < 0 ? '0'.repeat(-shift) + head + tail : (head + tail).padEnd(head.length + shift, '0');
    const at = shift < 0 ? head.length : head.length + shift, part = all.slice(at);
    const whole = '' + (OldBigInt(all.slice(0, at) + part.slice(0, most).padEnd(most, '0')) + (part[most] >= '5' ? 1n : 0n));
    const padded = whole.padStart(most + 1, '0'), kept = padded.slice(padded.length - most || padded.length).replace(/0+$/, '').padEnd(least, '0');
    return sign + grouped(padded.slice(0, padded.length - most)) + (kept && '.' + kept);
  };
  put(Number.prototype, 'toLocaleString', {toLocaleString(locale, options) {
    american('toLocaleString', locale, options, ['minimumFractionDigits', 'maximumFractionDigits']);
    const {minimumFractionDigits: least = 0, maximumFractionDigits: most = least > 3 ? least : 3} = options || {};
    if (!(least >= 0 && most >= least && most <= 100)) throw new Range('toLocaleString: from ' + least + ' to ' + most + ' digits of a fraction');
    return decimal(+this, least, most);
  }}.toLocaleString);
  put(OldBigInt.prototype, 'toLocaleString', {toLocaleString(locale, options) {
    american('toLocaleString', locale, options, []);
    return this < 0n ? '-' + grouped('' + -this) : grouped('' + this);
  }}.toLocaleString);

  // What a script writes goes into the log of its task.
  const printed = [], LINES = 1000, LONGEST = 10000, counts = {__proto__: null};
  const show = (value) => {
    if (typeof value === 'string') return value;
    if (value === undefined || typeof value === 'function' || typeof value === 'symbol') return text(value);
    if (value instanceof Error) return value.name + ': ' + value.message;
    const before = room;
    room = LONGEST;
    try { return write(value, 0); } catch (error) { return '\u2026'; } finally { room = before; }
  };
  const line = (...given) => {
    if (printed.length < LINES) printed.push(apply(join, given.map(show), [' ']).slice(0, LONGEST));
    else if (printed.length === LINES) printed.push('\u2026 more than ' + LINES + ' lines: the others are not kept');
  };
  const console = {
    assert: (holds, ...given) => { if (!holds) line('Assertion failed:', ...given); },
    count: (label = 'default') => line(label + ': ' + (counts[label] = (counts[label] || 0) + 1)),
    countReset: (label = 'default') => { delete counts[label]; },
    timeEnd: (label = 'default') => line(label + ': 0ms'), timeLog: (label = 'default', ...given) => line(label + ': 0ms', ...given),
  };
  for (const name of ['log', 'info', 'debug', 'warn', 'error', 'trace', 'dir', 'dirxml', 'table', 'group', 'groupCollapsed']) console[name] = line;
  for (const name of ['clear', 'groupEnd', 'time']) console[name] = () => {};
  put(G, 'console', console);

  function clock(now) {
    const zoned = /(?:[zZ]|GMT|UTC?|[+-]\d{2}:?\d{2})\s*(?:\(.*\))?$|^\s*[+-]?\d{4,6}(?:-\d{2}(?:-\d{2})?)?\s*$/;
    const read = (value) => {
      const at = parseDate(value);
      return at !== at || apply(exec, zoned, [value]) !== null ? at : at - new OldDate(at).getTimezoneOffset() * 60000;
    };
    const made = (rest) => {
      if (rest.length === 0) return [now];
      if (rest.length > 1) return [apply(utc, null, rest)];
      return [typeof rest[0] === 'string' ? read(rest[0]) : rest[0]];
    };
    const NewDate = new Proxy(OldDate, {
      __proto__: null,
      apply() { return text(new OldDate(now)); },
      construct(target, rest, kind) { return construct(target, made(rest), kind === NewDate ? target : kind); },
    });
    const old = OldDate.prototype;
    for (const part of ['FullYear', 'Month', 'Date', 'Day', 'Hours', 'Minutes', 'Seconds', 'Milliseconds']) {
      put(old, 'get' + part, old['getUTC' + part]);
      if (part !== 'Day') put(old, 'set' + part, old['setUTC' + part]);
    }
    put(old, 'getTimezoneOffset', function getTimezoneOffset() { return 0; });
    const iso = old.toISOString, utcText = old.toUTCString;
    put(old, 'toString', {toString() { return apply(utcText, this, []); }}.toString);
    put(old, 'toDateString', {toDateString() { return apply(iso, this, []).slice(0, 10); }}.toDateString);
    put(old, 'toTimeString', {toTimeString() { return apply(iso, this, []).slice(11, 19); }}.toTimeString);
    const date = (at) => at.getUTCMonth() + 1 + '/' + at.getUTCDate() + '/' + at.getUTCFullYear();
    const two = (number) => (number < 10 ? '0' : '') + number;
    const time = (at) => (at.getUTCHours() % 12 || 12) + ':' + two(at.getUTCMinutes()) + ':' + two(at.getUTCSeconds())
      + (at.getUTCHours() < 12 ? '\u202fAM' : '\u202fPM');
    const shown = {toLocaleString: (at) => date(at) + ', ' + time(at), toLocaleDateString: date, toLocaleTimeString: time};
    for (const name of keys(shown)) put(old, name, {[name](locale, options) {
      american(name, locale, options, []);
      return this.getTime() === this.getTime() ? shown[name](this) : 'Invalid Date';
    }}[name]);
    put(OldDate, 'now', function now_() { return now; });
    put(OldDate, 'parse', function parse(value) { return read(text(value)); });
    put(old, 'constructor', NewDate);
    put(G, 'Date', NewDate);
  }

  function chance(a, b, c, d) {
    put(Math, 'random', function random() {
      const t = (a + b | 0) + d | 0;
      d = d + 1 | 0; a = b ^ b >>> 9; b = c + (c << 3) | 0; c = (c << 21 | c >>> 11) + t | 0;
      return (t >>> 0) / 4294967296;
    });
  }

  function collections() {
    const bad = (index, length) => new Range('Index ' + index + ' out of bounds for length ' + length);
    const at = (list, index) => { if (!(index >= 0 && index < list.length && index % 1 === 0)) throw bad(index, list.length); return list[index]; };
    const own = (map, key) => getOwn(map, key) !== undefined;
    put(Array.prototype, 'get', function get(index) { return at(this, +index); });
    put(Array.prototype, 'size', function size() { return this.length; });
    put(Array.prototype, 'isEmpty', function isEmpty() { return this.length === 0; });
    put(Array.prototype, 'contains', function contains(item) { return this.indexOf(item) >= 0; });
    // Texts, numbers and booleans inherit from Object, too, and have none of these.
    const map = (value) => { if (typeof value !== 'object') throw new Type('not a function'); return value; };
    put(Object.prototype, 'get', function get(key) { return own(map(this), key) ? this[key] : null; });
    put(Object.prototype, 'size', function size() { return keys(map(this)).length; });
    put(Object.prototype, 'isEmpty', function isEmpty() { return keys(map(this)).length === 0; });
    put(Object.prototype, 'containsKey', function containsKey(key) { return own(map(this), key); });
  }

  // What the result may still take. Counted while it is written: what grows beyond it may take all the time of the script.
  const over = {}, MOST = 10n ** 1000n;
  let room = 0;
  const spend = (length) => { if ((room -= length + 1) < 0) throw over; };

  function write(value, depth) {
    spend(typeof value === 'string' ? value.length : 0);
    if (value === undefined || value === null) return 'null';
    switch (typeof value) {
      case 'boolean': return value ? 'true' : 'false';
      case 'number':
        if (value !== value || value === Infinity || value === -Infinity) return '"' + value + '"';  // as Conductor's JSON writes them
        if (value % 1 !== 0) return '' + value;
        if (value >= -9223372036854775808 && value < 9223372036854775808) return '' + OldBigInt(value);
        return value < 1e21 && value > -1e21 ? value + '.0' : '' + value;  // no whole number of JSON: its digits are not known
      case 'string':
        if (!apply(wellFormed, value, [])) throw new Range('the result holds half of a surrogate pair');
        return stringify(value);
      case 'bigint':
        if (value >= MOST || value <= -MOST) throw new Range('the result is a BigInt of more than 1,000 digits');
        return '' + value;
      case 'object': break;
      default: return '{}';
    }
    if (depth > 200) throw new Range('the result is nested deeper than 200 levels, or cyclic');
    let result = '';
    if (isArray(value)) {
      for (let i = 0; i < value.length; i++) result += (i ? ',' : '') + write(value[i], depth + 1);
      return '[' + result + ']';
    }
    const all = keys(value);
    for (let i = 0; i < all.length; i++) spend(all[i].length), result += (i ? ',' : '') + stringify(all[i]) + ':' + write(value[all[i]], depth + 1);
    return '{' + result + '}';
  }

  // A long concatenation is a rope, which the binding cannot read; what is joined is not. Lines that were printed come first.
  const answer = (sign, written) => apply(join, [printed.length ? '>' + stringify(printed) + '\n' : '', sign, written], ['']);

  return function (values, script, now, a, b, c, d, java, most, longer, read) {
    try {
      room = most;
      clock(now);
      chance(a, b, c, d);
      if (java) collections();
      put(G, '$', (read || parse)(values));
      return answer('=', write(run(script), 0));
    } catch (error) {
      let said = 'the script threw', where = '';
      try {
        if (error === over) said = longer;
        else if (error === null) said = 'InternalError: out of memory';
        else if (typeof error === 'object' && typeof error.stack === 'string') {
          said = error.name + ': ' + error.message; where = error.stack;
        } else said = typeof error === 'object' ? write(error, 0) : text(error);
      } catch (again) {}
      return answer('!', stringify([('' + said).substring(0, 500), ('' + where).substring(0, 2000)]));
    }
  };
})()
