// Evaluated after the prelude where a script's values hold whole numbers that a double cannot: they are BigInts, and what JavaScript
// refuses BigInts is answered for them as for numbers, exactly. Reading and writing JSON keeps them. `operators.py` has the script's
// operators call what `__exactly` holds. Evaluates to what reads JSON.
(function () {
  'use strict';
  const G = globalThis, number = Number, text = String, whole = BigInt, raw = JSON.rawJSON, parse = JSON.parse;
  const define = Object.defineProperty, names = Object.getOwnPropertyNames, apply = Reflect.apply;
  const isSafe = Number.isSafeInteger, digits = /^-?[0-9]+$/, test = RegExp.prototype.test;
  const put = (owner, name, value) => define(owner, name, {__proto__: null, value, writable: true, configurable: true, enumerable: false});
  const named = (owner, name, make) => put(owner, name, {[name]: make(owner[name])}[name]);
  const isWide = (value) => typeof value === 'bigint';
  const narrowed = (value) => isWide(value) ? number(value) : value;

  named(JSON, 'parse', () => (source, reviver) => {
    const exact = (value, context) => {
      const read = context.source;
      return typeof value !== 'number' || isSafe(value) || !apply(test, digits, [read]) ? value : whole(read);
    };
    const revive = typeof reviver !== 'function' ? (key, value, context) => exact(value, context)
      : function (key, value, context) { return apply(reviver, this, [key, exact(value, context), context]); };
    return parse(source, revive);
  });
  put(whole.prototype, 'toJSON', function toJSON() { return raw('' + this); });
  put(whole.prototype, 'toFixed', function toFixed(places) { return '' + this + (places > 0 ? '.' + '0'.repeat(places) : ''); });
  for (const name of ['toPrecision', 'toExponential']) {
    const old = number.prototype[name];
    put(whole.prototype, name, {[name](...rest) { return apply(old, number(this), rest); }}[name]);
  }

  for (const name of ['isNaN', 'isFinite']) named(G, name, (old) => (value) => isWide(value) ? name === 'isFinite' : old(value));
  for (const name of ['isFinite', 'isInteger']) named(number, name, (old) => (value) => isWide(value) || old(value));
  named(G, 'parseInt', (old) => (value, base) => isWide(value) && (base === undefined || base === 10) ? value : old(value, base));
  named(G, 'parseFloat', (old) => (value) => isWide(value) ? value : old(value));
  for (const name of ['parseInt', 'parseFloat']) put(number, name, G[name]);

  for (const name of names(Math)) {
    if (typeof Math[name] !== 'function') continue;
    named(Math, name, (old) => (...given) => {
      if (!given.some(isWide)) return apply(old, Math, given);
      if (name === 'abs') return given[0] < 0n ? -given[0] : given[0];
      if (name === 'floor' || name === 'ceil' || name === 'round' || name === 'trunc') return given[0];
      if (name !== 'max' && name !== 'min') return apply(old, Math, given.map(narrowed));
      let best = name === 'max' ? -Infinity : Infinity;
      for (const one of given) {
        const value = isWide(one) ? one : +one;
        if (value !== value) return NaN;
        if (name === 'max' ? value > best : value < best) best = value;
      }
      return best;
    });
  }
  for (const name of ['sort', 'toSorted']) {
    named(Array.prototype, name, (old) => function (compare) {
      const order = typeof compare !== 'function' ? compare : (left, right) => {
        const found = compare(left, right);
        return isWide(found) ? (found > 0n ? 1 : found < 0n ? -1 : 0) : found;
      };
      return apply(old, this, order === undefined ? [] : [order]);
    });
  }

  // Two whole numbers are calculated with exactly; what is then no longer of 64 bits is a double, as a number that is not whole is.
  const trunc = Math.trunc, most = 2n ** 63n, numeric = /^\s*[+-]?[0-9]+\s*$/;
  const fit = (value) => value >= most || value < -most || isSafe(number(value)) ? number(value) : value;
  const primitive = (value) => {
    if (value === null || (typeof value !== 'object' && typeof value !== 'function')) return value;
    const inner = typeof value.valueOf === 'function' ? value.valueOf() : value;
    return inner !== null && typeof inner === 'object' ? '' + value : inner;
  };
  const figure = (value) => {
    const plain = primitive(value);
    return isWide(plain) ? plain : typeof plain === 'string' && apply(test, numeric, [plain]) && !isSafe(+plain) ? whole(plain) : +plain;
  };
  const calculate = (left, right, exactly, roughly) => {
    const a = figure(left), b = figure(right);
    if ((isWide(a) || isSafe(a)) && (isWide(b) || isSafe(b))) {
      const found = exactly(whole(a), whole(b));
      if (found !== undefined) return fit(found);
    }
    return roughly(number(a), number(b));
  };
  const plus = (left, right) => {
    if (!isWide(left) && !isWide(right)) return left + right;
    const a = primitive(left), b = primitive(right);
    return typeof a === 'string' || typeof b === 'string' ? a + b : calculate(a, b, (x, y) => x + y, (x, y) => x + y);
  };
  const operation = (exactly, roughly) => (left, right) =>
    isWide(left) || isWide(right) ? calculate(left, right, exactly, roughly) : roughly(left, right);
  // Below zero, equal to it or above it as the first is to the second; QuickJS is wrong about negative BigInts beside doubles.
  const order = (left, right) => {
    const a = figure(left), b = figure(right);
    if (isWide(a) === isWide(b)) return a < b ? -1 : a > b ? 1 : a === b ? 0 : NaN;
    if (!isWide(a)) return -order(b, a);
    if (b !== b) return NaN;
    if (b === Infinity || b === -Infinity) return b > 0 ? -1 : 1;
    const near = whole(trunc(b));
    return a < near ? -1 : a > near ? 1 : trunc(b) - b;
  };
  const comparison = (exactly, roughly) => (left, right) =>
    isWide(left) || isWide(right) ? exactly(order(left, right)) : roughly(left, right);
  const same = (left, right) => isWide(left) !== isWide(right) && (typeof left === 'number' || typeof right === 'number')
    ? left == right : left === right;
  const kinds = {__proto__: null, bigint: 'number'};
  for (const kind of ['undefined', 'object', 'boolean', 'number', 'string', 'function', 'symbol']) kinds[kind] = kind;

  put(G, '__exactly', {
    __proto__: null, kinds, same, differs: (left, right) => !same(left, right),
    add(first, ...others) { let sum = first; for (const other of others) sum = plus(sum, other); return sum; },
    subtract: operation((a, b) => a - b, (a, b) => a - b),
    multiply: operation((a, b) => a * b, (a, b) => a * b),
    divide: operation((a, b) => b !== 0n && a % b === 0n ? a / b : undefined, (a, b) => a / b),
    remainder: operation((a, b) => b !== 0n ? a % b : undefined, (a, b) => a % b),
    power: operation((a, b) => b >= 0n && b < 64n ? a ** b : undefined, (a, b) => a ** b),
    negative: (value) => isWide(value) ? fit(-value) : -value,
    positive: (value) => isWide(value) ? value : +value,
    less: comparison((found) => found < 0, (a, b) => a < b),
    greater: comparison((found) => found > 0, (a, b) => a > b),
    atMost: comparison((found) => found <= 0, (a, b) => a <= b),
    atLeast: comparison((found) => found >= 0, (a, b) => a >= b),
  });
  return JSON.parse;
})()
