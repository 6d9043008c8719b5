"""What runs in a fresh QuickJS context before a script: it takes away what a script must not have, and hands out the rest.

The text is a function that gets the captured originals out of reach of the script, and returns the one function that Python
calls: values, script, clock and chance in; the completion value as JSON text, or what was thrown, out. Built-ins that the
engine cannot interrupt are given a budget here, because its time limit is looked at between steps only.
"""

from __future__ import annotations

from typing import Final

__all__ = ["FIRST_LINE", "PRELUDE"]

#: The lines of the prelude lie behind all lines a script has, so that an error's place tells the two apart.
FIRST_LINE: Final = 100_000
PRELUDE: Final = (
    "\n" * FIRST_LINE
    + r"""(function () {
  'use strict';
  const G = globalThis, run = eval, parse = JSON.parse, stringify = JSON.stringify, keys = Object.keys;
  const isArray = Array.isArray, define = Object.defineProperty, names = Object.getOwnPropertyNames;
  const apply = Reflect.apply, construct = Reflect.construct, wellFormed = String.prototype.isWellFormed;
  const Range = RangeError, text = String, exec = RegExp.prototype.exec, find = String.prototype.indexOf, OldDate = Date, OldRegExp = RegExp, OldBigInt = BigInt;
  const getOwn = Object.getOwnPropertyDescriptor, utc = Date.UTC, parseDate = Date.parse, source = getOwn(RegExp.prototype, 'source').get;
  const put = (owner, name, value) => define(owner, name, {__proto__: null, value, writable: true, configurable: true, enumerable: false});

  let left = 50000000;
  const charge = (cost) => {
    if (cost > 0 && (left -= cost) < 0) { left = 0; throw new Range('too much work for built-in functions'); }
  };
  const wrap = (owner, name, cost) => {
    const native = owner[name];
    if (typeof native === 'function') put(owner, name, {[name](...rest) {
      if (this !== null && this !== undefined) charge(cost(this, rest));
      return apply(native, this, rest);
    }}[name]);
  };
  const size = (self) => +self.length || 0;
  for (const name of ['concat', 'copyWithin', 'flat', 'flatMap', 'includes', 'indexOf', 'join', 'lastIndexOf', 'reverse', 'shift',
                      'slice', 'splice', 'toLocaleString', 'toReversed', 'toSpliced', 'toString', 'unshift', 'fill', 'with']) {
    wrap(Array.prototype, name, (self, rest) => {
      let cost = size(self);
      for (let i = 0; i < rest.length; i++) if (typeof rest[i] === 'object' && rest[i] !== null) cost += size(rest[i]);
      return cost;
    });
  }
  for (const name of ['sort', 'toSorted']) wrap(Array.prototype, name, (self) => 30 * size(self));
  const typed = Object.getPrototypeOf(Int8Array.prototype);
  for (const name of names(typed)) {
    if (name !== 'constructor' && typeof getOwn(typed, name).value === 'function') wrap(typed, name, (self) => 10 * size(self));
  }
  for (const name of ['normalize', 'toLowerCase', 'toUpperCase', 'localeCompare', 'repeat', 'padStart', 'padEnd', 'trim', 'concat',
                      'toLocaleLowerCase', 'toLocaleUpperCase', 'slice', 'substring']) {
    wrap(String.prototype, name, (self, rest) => size(text(self)) + (typeof rest[0] === 'number' ? 0 : size(text(rest[0]))));
  }
  for (const name of ['indexOf', 'includes', 'lastIndexOf', 'split', 'replace', 'replaceAll', 'startsWith', 'endsWith']) {
    wrap(String.prototype, name, (self, rest) => {
      const own = size(text(self));
      return typeof rest[0] === 'string' ? own + own * size(rest[0]) / 16 : own;
    });
  }
  const searched = (self, value) => {
    const own = size(text(value)), pattern = self instanceof OldRegExp ? apply(source, self, []) : '';
    return apply(find, pattern, ['(?<=']) >= 0 || apply(find, pattern, ['(?<!']) >= 0 ? own * own : own;
  };
  for (const name of ['test', 'exec', Symbol.replace, Symbol.split, Symbol.match, Symbol.matchAll, Symbol.search]) {
    wrap(OldRegExp.prototype, name, (self, rest) => searched(self, rest[0]));
  }
  wrap(JSON, 'stringify', (self, rest) => isArray(rest[1]) ? 100 * size(rest[1]) : isArray(rest[0]) ? size(rest[0]) : 0);
  wrap(String, 'raw', (self, rest) => rest[0] && rest[0].raw ? 10 * size(rest[0].raw) : 0);
  wrap(OldBigInt.prototype, 'toString', (self) => typeof self === 'bigint' && (self >> 65536n) !== 0n && self >> 65536n !== -1n ? 1e12 : 0);
  delete G.Iterator.prototype.drop;

  const limited = (Native, limit, what) => {
    const check = (value) => {
      if (typeof value === 'string' && value.length > limit) throw new Range(what + ' is too long');
    };
    const made = new Proxy(Native, {
      __proto__: null,
      apply(target, self, rest) { check(rest[0]); return apply(target, self, rest); },
      construct(target, rest, kind) { check(rest[0]); return construct(target, rest, kind === made ? target : kind); },
    });
    put(Native.prototype, 'constructor', made);
    return made;
  };
  put(G, 'RegExp', limited(OldRegExp, 20000, 'a regular expression'));
  put(G, 'BigInt', limited(OldBigInt, 20000, 'a BigInt'));

  for (const kind of [function () {}, async function () {}, function* () {}, async function* () {}]) {
    put(Object.getPrototypeOf(kind), 'constructor', undefined);
  }
  for (const name of ['eval', 'Function', 'performance', 'Atomics', 'SharedArrayBuffer', 'WeakRef', 'FinalizationRegistry', 'Iterator',
                      'queueMicrotask', 'print', 'console', 'load', 'navigator', 'gc', 'std', 'os', 'bjson', 'scriptArgs']) delete G[name];

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
    for (const name of ['toString', 'toLocaleString']) put(old, name, {[name]() { return apply(utcText, this, []); }}[name]);
    for (const name of ['toDateString', 'toLocaleDateString']) put(old, name, {[name]() { return apply(iso, this, []).slice(0, 10); }}[name]);
    for (const name of ['toTimeString', 'toLocaleTimeString']) put(old, name, {[name]() { return apply(iso, this, []).slice(11, 19); }}[name]);
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
    put(String.prototype, 'contains', function contains(part) { return this.includes(part); });
    put(String.prototype, 'isEmpty', function isEmpty() { return this.length === 0; });
    put(String.prototype, 'size', function size() { return this.length; });
    put(Object.prototype, 'get', function get(key) { return own(this, key) ? this[key] : null; });
    put(Object.prototype, 'size', function size() { return keys(this).length; });
    put(Object.prototype, 'isEmpty', function isEmpty() { return keys(this).length === 0; });
    put(Object.prototype, 'containsKey', function containsKey(key) { return own(this, key); });
  }

  function write(value, depth) {
    if (value === undefined || value === null) return 'null';
    switch (typeof value) {
      case 'boolean': return value ? 'true' : 'false';
      case 'number':
        if (value !== value) return 'null';
        if (value === Infinity || value === -Infinity) throw new Range('the result is ' + value + ', which is not a JSON number');
        if (value >= -9223372036854775808 && value < 9223372036854775808 && value % 1 === 0) return '' + OldBigInt(value);
        return '' + value;
      case 'string':
        if (!apply(wellFormed, value, [])) throw new Range('the result holds half of a surrogate pair');
        return stringify(value);
      case 'bigint':
        if (value >= 2n ** 63n || value < -(2n ** 63n)) throw new Range('the result is a BigInt of more than 64 bits');
        return '' + value;
      case 'object': break;
      default: return '{}';
    }
    if (depth > 200) throw new Range('the result is nested deeper than 200 levels, or cyclic');
    let result = '';
    if (isArray(value)) {
      charge(value.length);
      for (let i = 0; i < value.length; i++) result += (i ? ',' : '') + write(value[i], depth + 1);
      return '[' + result + ']';
    }
    const all = keys(value);
    for (let i = 0; i < all.length; i++) result += (i ? ',' : '') + stringify(all[i]) + ':' + write(value[all[i]], depth + 1);
    return '{' + result + '}';
  }

  return function (values, script, now, a, b, c, d, java) {
    try {
      clock(now);
      chance(a, b, c, d);
      if (java) collections();
      put(G, '$', parse(values));
      return '=' + write(run(script), 0);
    } catch (error) {
      let said = 'the script threw', where = '';
      try {
        if (error === null) said = 'InternalError: out of memory';
        else if (typeof error === 'object' && typeof error.stack === 'string') {
          said = error.name + ': ' + error.message; where = error.stack;
        } else said = typeof error === 'object' ? write(error, 0) : text(error);
      } catch (again) {}
      return '!' + stringify([('' + said).substring(0, 500), ('' + where).substring(0, 2000)]);
    }
  };
})()
"""  # noqa: E501 - JavaScript
)
