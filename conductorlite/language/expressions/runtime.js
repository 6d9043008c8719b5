// What expressions of Python are made of in JavaScript. `javascript.py` copies into a script those functions that it needs, with those
// that they need; every function begins a line with `function`, and no comment and no text holds a dollar sign before a brace.
// A list is an array, None is null; a tuple, dict, set, range, view or iterator is an object with its name as `type`. The entries of a
// dict are pairs in `kept`, by what stands for their keys, see `key`, which is never a name of JavaScript's own and never a number.

function fail(kind, said) { throw new Error(kind + ': ' + said); }
function reraise(e, reason) { throw new Error(reason); }
function beyond(said) { fail('OverflowError', 'the whole number ' + said + ' is beyond 2^53, where JavaScript rounds'); }
function unknown(said) { fail('NotImplementedError', said + ' is not known in JavaScript'); }
function isNum(v) { return typeof v === 'number' || typeof v === 'boolean'; }
function isInt(v) { return typeof v === 'boolean' || Number.isInteger(v); }
function type(v) {
  if (v === null) return 'NoneType';
  if (typeof v === 'boolean') return 'bool';
  if (typeof v === 'number') return Number.isInteger(v) ? 'int' : 'float';
  return typeof v === 'string' ? 'str' : Array.isArray(v) ? 'list' : v.type || 'generator';
}
function lacks(v, name) { fail('AttributeError', "'" + type(v) + "' object has no attribute '" + name + "'"); }
function num(r) { return Number.isInteger(r) && Math.abs(r) > 9007199254740991 ? beyond(String(r)) : r + 0; }
function tuple(given) { return {type: 'tuple', items: given}; }
function val(v) {
  if (v === null || v === undefined) return null;
  if (typeof v !== 'object') return v;
  if (Array.isArray(v)) {
    const all = [];
    for (let i = 0; i < v.length; i++) all.push(val(v[i]));
    return all;
  }
  if (typeof v.doubleValue === 'function') return v.doubleValue();
  const d = made();
  if (typeof v.entrySet === 'function') {
    const entries = v.entrySet().iterator();
    while (entries.hasNext()) { const e = entries.next(); put(d, String(e.getKey()), val(e.getValue())); }
  } else for (const k of Object.keys(v)) put(d, k, val(v[k]));
  return d;
}
function made() { return {type: 'dict', kept: Object.create(null)}; }
function out(v) {
  if (v === null || typeof v === 'boolean' || typeof v === 'string') return v;
  if (typeof v === 'number') return Number.isFinite(v) ? v : fail('ValueError', 'Out of range float values are not JSON compliant');
  const t = type(v);
  if (t === 'list' || t === 'tuple') return (t === 'list' ? v : v.items).map(out);
  if (t !== 'dict') fail('TypeError', 'Object of type ' + t + ' is not JSON serializable');
  const all = {};
  for (const e of pairs(v)) {
    if (typeof e[0] !== 'string') fail('TypeError', 'keys must be str, not ' + type(e[0]));
    Object.defineProperty(all, e[0], {__proto__: null, value: out(e[1]), writable: true, enumerable: true, configurable: true});
  }
  return all;
}
function key(k) {
  if (k === null) return 'n';
  if (isNum(k)) return '=' + (+k + 0);
  if (typeof k === 'string') return 's' + k;
  if (type(k) !== 'tuple') fail('TypeError', "unhashable type: '" + type(k) + "'");
  return 't' + JSON.stringify(k.items.map(key));
}
function dict(v, more) {
  const d = made();
  if (v !== undefined) {
    if (type(v) === 'dict') merge(d, v);
    else for (const pair of iter(v)) {
      const two = Array.from(iter(pair));
      if (two.length !== 2) fail('ValueError', 'dictionary update sequence has an element of another length than 2');
      put(d, two[0], two[1]);
    }
  }
  return more === undefined ? d : merge(d, more);
}
function pairs(d) { return Object.keys(d.kept).map((at) => d.kept[at]); }
function put(d, k, v) {
  const at = key(k), e = d.kept[at];
  if (e) e[1] = v; else d.kept[at] = [k, v];
  return d;
}
function merge(d, v) {
  if (type(v) !== 'dict') fail('TypeError', "'" + type(v) + "' object is not a mapping");
  for (const e of pairs(v)) put(d, e[0], e[1]);
  return d;
}
function puts(d, given) {
  for (const pair of given) put(d, pair[0], pair[1]);
  return d;
}
function set(v) {
  const s = {type: 'set', kept: Object.create(null)};
  if (v !== undefined) for (const item of iter(v)) if (!s.kept[key(item)]) s.kept[key(item)] = [item];
  return s;
}
function iter(v) {
  if (Array.isArray(v)) return v;
  if (typeof v === 'string') return Array.from(v);
  if (v !== null && typeof v === 'object') {
    if (v.kept) return pairs(v).map((e) => e[0]);
    if (v.type === 'range') return steps(v);
    if (v.items) return v.items;
    if (typeof v.next === 'function') return v;
  }
  return fail('TypeError', "'" + type(v) + "' object is not iterable");
}
function items(v) { return Array.from(iter(v)); }
function star(v) {
  if (isNum(v) || v === null) fail('TypeError', 'Value after * must be an iterable, not ' + type(v));
  return iter(v);
}
function list(v) { return v === undefined ? [] : items(v); }
function tupleOf(v) { return tuple(v === undefined ? [] : items(v)); }
function* steps(r) { for (let i = 0, n = len(r); i < n; i++) yield r.start + i * r.step; }
function range(a, b, c) {
  for (const v of [a, b, c]) if (v !== undefined && !isInt(v)) fail('TypeError', "'" + type(v) + "' object cannot be interpreted as an integer");
  if (c !== undefined && +c === 0) fail('ValueError', 'range() arg 3 must not be zero');
  return {type: 'range', start: b === undefined ? 0 : +a, stop: b === undefined ? +a : +b, step: c === undefined ? 1 : +c};
}
function len(v) {
  if (typeof v === 'string') return Array.from(v).length;
  if (Array.isArray(v)) return v.length;
  if (v !== null && typeof v === 'object') {
    if (v.kept) return Object.keys(v.kept).length;
    if (v.type === 'range') return Math.max(0, Math.ceil((v.stop - v.start) / v.step));
    if (v.items) return v.items.length;
  }
  return fail('TypeError', "object of type '" + type(v) + "' has no len()");
}
function truth(v) {
  if (typeof v === 'boolean') return v;
  if (v === null || v === 0 || v === '') return false;
  return typeof v !== 'object' || typeof v.next === 'function' || len(v) > 0;
}
function and(v) {
  for (let i = 1; i < arguments.length && truth(v); i++) v = arguments[i]();
  return v;
}
function or(v) {
  for (let i = 1; i < arguments.length && !truth(v); i++) v = arguments[i]();
  return v;
}
function eq(a, b) {
  if (isNum(a) && isNum(b)) return +a === +b;
  const t = type(a);
  if (t !== type(b)) return false;
  if (t === 'list' || t === 'tuple') {
    const x = t === 'list' ? a : a.items, y = t === 'list' ? b : b.items;
    return x.length === y.length && x.every((item, i) => eq(item, y[i]));
  }
  if (t === 'dict') return len(a) === len(b) && Object.keys(a.kept).every((k) => b.kept[k] && eq(a.kept[k][1], b.kept[k][1]));
  if (t === 'range') return eq(items(a), items(b));
  if (t.slice(0, 5) === 'dict_') unknown('a comparison of views');
  return a === b;
}
function order(a, b) {
  const x = Array.from(a), y = Array.from(b);
  for (let i = 0; i < x.length && i < y.length; i++) if (x[i] !== y[i]) return x[i].codePointAt(0) - y[i].codePointAt(0);
  return x.length - y.length;
}
function lt(a, b, sign) {
  const s = sign || '<', t = type(a);
  if (isNum(a) && isNum(b)) return s === '<' ? a < b : s === '<=' ? a <= b : s === '>' ? a > b : a >= b;
  if (t === 'str' && typeof b === 'string') return lt(order(a, b), 0, s);
  if ((t === 'list' || t === 'tuple') && type(b) === t) {
    const x = t === 'list' ? a : a.items, y = t === 'list' ? b : b.items;
    for (let i = 0; i < x.length && i < y.length; i++) if (!eq(x[i], y[i])) return lt(x[i], y[i], s);
    return lt(x.length, y.length, s);
  }
  if (t.slice(0, 5) === 'dict_') unknown('a comparison of views');
  return fail('TypeError', "'" + s + "' not supported between instances of '" + t + "' and '" + type(b) + "'");
}
function compare(a, sign, b) {
  if (sign === '==') return eq(a, b);
  if (sign === '!=') return !eq(a, b);
  if (sign === 'in') return has(b, a);
  if (sign === 'not in') return !has(b, a);
  if (sign === 'is') return a === b;
  return sign === 'is not' ? a !== b : lt(a, b, sign);
}
function chain(a) {
  for (let i = 1; i < arguments.length; i += 2) {
    const b = arguments[i + 1]();
    if (!compare(a, arguments[i], b)) return false;
    a = b;
  }
  return true;
}
function has(c, v) {
  if (typeof c === 'string') {
    if (typeof v !== 'string') fail('TypeError', "'in <string>' requires string as left operand, not " + type(v));
    return c.includes(v);
  }
  if (c !== null && typeof c === 'object' && c.kept) return key(v) in c.kept;
  if (isNum(c) || c === null) fail('TypeError', "argument of type '" + type(c) + "' is not iterable");
  for (const item of iter(c)) if (eq(item, v)) return true;
  return false;
}
function operands(sign, a, b) { fail('TypeError', 'unsupported operand type(s) for ' + sign + ": '" + type(a) + "' and '" + type(b) + "'"); }
function add(a, b) {
  if (isNum(a) && isNum(b)) return num(+a + +b);
  const t = type(a);
  if (t === 'str') return typeof b === 'string' ? a + b : fail('TypeError', 'can only concatenate str (not "' + type(b) + '") to str');
  if (t === 'list' || t === 'tuple') {
    if (type(b) !== t) fail('TypeError', 'can only concatenate ' + t + ' (not "' + type(b) + '") to ' + t);
    return t === 'list' ? a.concat(b) : tuple(a.items.concat(b.items));
  }
  return operands('+', a, b);
}
function sub(a, b) { return isNum(a) && isNum(b) ? num(a - b) : operands('-', a, b); }
function mul(a, b) {
  if (isNum(a) && isNum(b)) return num(a * b);
  if (isNum(a)) return repeat(b, a, a, b);
  return repeat(a, b, a, b);
}
function repeat(v, n, a, b) {
  const t = type(v);
  if (t !== 'str' && t !== 'list' && t !== 'tuple') operands('*', a, b);
  if (!isInt(n)) fail('TypeError', "can't multiply sequence by non-int of type '" + type(n) + "'");
  if (t === 'str') return v.repeat(Math.max(0, n));
  let done = [];
  for (let i = 0; i < n; i++) done = done.concat(t === 'list' ? v : v.items);
  return t === 'list' ? done : tuple(done);
}
function zero(a, b) { fail('ZeroDivisionError', Number.isInteger(+a) ? 'division by zero' : 'float division by zero'); }
function div(a, b) {
  if (!isNum(a) || !isNum(b)) operands('/', a, b);
  return +b === 0 ? zero(a, b) : num(a / b);
}
function parts(a, b, sign) {
  if (!isNum(a) || !isNum(b)) operands(sign, a, b);
  if (+b === 0) zero(a, b);
  let rest = a % b, whole = (a - rest) / b;
  if (rest !== 0) { if ((b < 0) !== (rest < 0)) { rest += +b; whole -= 1; } } else rest = 0;
  const low = Math.floor(whole);
  return [whole - low > 0.5 ? low + 1 : low, rest];
}
function floordiv(a, b) { return num(parts(a, b, '//')[0]); }
function mod(a, b) {
  if (typeof a === 'string') unknown('% on a text');
  return num(parts(a, b, '%')[1]);
}
function pow(a, b) {
  if (!isNum(a) || !isNum(b)) operands('** or pow()', a, b);
  if (+a === 0 && b < 0) fail('ZeroDivisionError', '0.0 cannot be raised to a negative power');
  if (a < 0 && !isInt(b)) unknown('a complex number');
  if (!isInt(a) || !isInt(b) || b < 0) return num(Math.pow(a, b));
  let done = 1;
  if (Math.abs(a) < 2) return +a === 0 ? (+b === 0 ? 1 : 0) : a > 0 || b % 2 === 0 ? 1 : -1;
  for (let i = 0; i < b; i++) done = num(done * a);
  return done;
}
function neg(a) { return isNum(a) ? 0 - a : fail('TypeError', "bad operand type for unary -: '" + type(a) + "'"); }
function pos(a) { return isNum(a) ? +a : fail('TypeError', "bad operand type for unary +: '" + type(a) + "'"); }
function get(v, i) {
  const t = type(v);
  if (t === 'dict') {
    const e = v.kept[key(i)];
    return e ? e[1] : fail('KeyError', repr(i));
  }
  if (t !== 'list' && t !== 'tuple' && t !== 'str' && t !== 'range') fail('TypeError', "'" + t + "' object is not subscriptable");
  if (!isInt(i)) fail('TypeError', (t === 'str' ? 'string' : t) + ' indices must be integers or slices, not ' + type(i));
  const all = t === 'list' ? v : items(v), at = i < 0 ? all.length + +i : +i;
  return at >= 0 && at < all.length ? all[at] : fail('IndexError', (t === 'str' ? 'string' : t === 'range' ? 'range object' : t) + ' index out of range');
}
function slice(v, from, to, by) {
  const t = type(v);
  if (t !== 'list' && t !== 'tuple' && t !== 'str' && t !== 'range') {
    fail('TypeError', t === 'dict' ? "unhashable type: 'slice'" : "'" + t + "' object is not subscriptable");
  }
  const n = len(v), step = by === null ? 1 : +by;
  for (const i of [by, from, to]) {
    if (i !== null && !isInt(i)) fail('TypeError', 'slice indices must be integers or None or have an __index__ method');
    if (step === 0) fail('ValueError', 'slice step cannot be zero');
  }
  const low = step < 0 ? -1 : 0, high = step < 0 ? n - 1 : n;
  const clip = (i) => i < 0 ? Math.max(+i + n, low) : Math.min(+i, high);
  const start = from === null ? (step < 0 ? high : low) : clip(from), stop = to === null ? (step < 0 ? low : high) : clip(to);
  if (t === 'range') return {type: 'range', start: v.start + start * v.step, stop: v.start + stop * v.step, step: v.step * step};
  const all = t === 'list' ? v : items(v), done = [];
  for (let i = start; step > 0 ? i < stop : i > stop; i += step) done.push(all[i]);
  return t === 'list' ? done : t === 'str' ? done.join('') : tuple(done);
}
function attr(v, name) {
  const e = type(v) === 'dict' ? v.kept['s' + name] : undefined;
  return e ? e[1] : lacks(v, name);
}
function changed(v, name, ...g) {
  const t = type(v);
  if (name === '+=') return [null, t === 'list' ? v.concat(items(g[0])) : add(v, g[0])];
  if (t === 'list') return changedList(v.slice(), name, g);
  if (t === 'dict') return changedDict(merge(made(), v), name, g);
  if (name === '[]=') fail('TypeError', "'" + t + "' object does not support item assignment");
  if (name === 'del') fail('TypeError', "'" + t + "' object doesn't support item deletion");
  return lacks(v, name);
}
function place(i, n, said) {
  const at = i < 0 ? +i + n : +i;
  return at < 0 || at >= n ? fail('IndexError', said) : at;
}
function changedList(all, name, g) {
  const n = all.length;
  if (name === '[]=' || name === 'del') {
    if (!isInt(g[0])) fail('TypeError', 'list indices must be integers or slices, not ' + type(g[0]));
    const at = place(g[0], n, 'list assignment index out of range');
    if (name === 'del') all.splice(at, 1); else all[at] = g[1];
    return [null, all];
  }
  if (name === 'append') all.push(g[0]);
  else if (name === 'extend') return [null, all.concat(items(g[0]))];
  else if (name === 'insert') {
    if (!isInt(g[0])) fail('TypeError', "'" + type(g[0]) + "' object cannot be interpreted as an integer");
    all.splice(g[0] < 0 ? Math.max(0, +g[0] + n) : Math.min(+g[0], n), 0, g[1]);
  } else if (name === 'pop') {
    if (g.length && !isInt(g[0])) fail('TypeError', "'" + type(g[0]) + "' object cannot be interpreted as an integer");
    if (!n) fail('IndexError', 'pop from empty list');
    return [all.splice(place(g.length ? g[0] : -1, n, 'pop index out of range'), 1)[0], all];
  } else if (name === 'remove') {
    const at = all.findIndex((one) => eq(one, g[0]));
    if (at < 0) fail('ValueError', 'list.remove(x): x not in list');
    all.splice(at, 1);
  } else if (name === 'reverse') all.reverse();
  else if (name === 'clear') return [null, []];
  else lacks(all, name);
  return [null, all];
}
function changedDict(d, name, g) {
  if (name === 'update') return [null, g.length ? merge(d, dict(g[0])) : d];
  const k = g.length ? key(g[0]) : '', e = d.kept[k];
  if (name === '[]=') return [null, put(d, g[0], g[1])];
  if (name === 'setdefault') return e ? [e[1], d] : [g.length > 1 ? g[1] : null, put(d, g[0], g.length > 1 ? g[1] : null)];
  if (name === 'clear') return [null, made()];
  if (name === 'popitem') {
    const last = pairs(d).pop();
    if (!last) fail('KeyError', "'popitem(): dictionary is empty'");
    delete d.kept[key(last[0])];
    return [tuple(last), d];
  }
  if (name !== 'del' && name !== 'pop') lacks(d, name);
  if (!e) return g.length > 1 ? [g[1], d] : fail('KeyError', repr(g[0]));
  delete d.kept[k];
  return [name === 'pop' ? e[1] : null, d];
}
function unpack(v, before, after) {
  if (isNum(v) || v === null) fail('TypeError', 'cannot unpack non-iterable ' + type(v) + ' object');
  const found = items(v), n = found.length;
  if (after !== undefined) {
    if (n < before + after) fail('ValueError', 'not enough values to unpack (expected at least ' + (before + after) + ', got ' + n + ')');
    return found.slice(0, before).concat([found.slice(before, n - after)], found.slice(n - after));
  }
  if (n < before) fail('ValueError', 'not enough values to unpack (expected ' + before + ', got ' + n + ')');
  if (n > before) fail('ValueError', 'too many values to unpack (expected ' + before + ')');
  return found;
}
function digits(x) {
  const [head, power] = x.toString().split('e'), e = power === undefined ? 0 : +power;
  const a = Math.abs(x);
  if (a !== 0 && a < 1e-4 && power === undefined) return digits10(x);
  return power === undefined ? head : head + 'e' + (e < 0 ? '-' : '+') + String(Math.abs(e)).padStart(2, '0');
}
function digits10(x) {
  const [head, power] = x.toExponential().split('e');
  return head + 'e' + (+power < 0 ? '-' : '+') + String(Math.abs(+power)).padStart(2, '0');
}
function number(x) {
  if (Number.isFinite(x)) return digits(x);
  return x !== x ? 'nan' : x > 0 ? 'inf' : '-inf';
}
function str(v) { return typeof v === 'string' ? v : v === undefined ? '' : repr(v); }
function repr(v) {
  if (v === null) return 'None';
  if (typeof v === 'boolean') return v ? 'True' : 'False';
  if (typeof v === 'number') return number(v);
  if (typeof v === 'string') return quoted(v);
  const t = type(v);
  if (t === 'list') return '[' + v.map(repr).join(', ') + ']';
  if (t === 'tuple') return '(' + v.items.map(repr).join(', ') + (v.items.length === 1 ? ',)' : ')');
  if (t === 'dict') return '{' + pairs(v).map((e) => repr(e[0]) + ': ' + repr(e[1])).join(', ') + '}';
  if (t === 'range') return 'range(' + v.start + ', ' + v.stop + (v.step === 1 ? ')' : ', ' + v.step + ')');
  return v.items ? t + '([' + v.items.map(repr).join(', ') + '])' : unknown('the text of a ' + t);
}
function quoted(s) {
  const quote = s.includes("'") && !s.includes('"') ? '"' : "'";
  let done = quote;
  for (const c of s) {
    const n = c.codePointAt(0);
    if (c === quote || c === '\\') done += '\\' + c;
    else if (c === '\n') done += '\\n';
    else if (c === '\r') done += '\\r';
    else if (c === '\t') done += '\\t';
    else if (n === 32 || (n > 32 && n < 127)) done += c;
    else if (n < 127 || /[\p{C}\p{Z}]/u.test(c) || n === 127) done += escaped(n);
    else done += c;
  }
  return done + quote;
}
function escaped(n) {
  if (n < 256) return '\\x' + n.toString(16).padStart(2, '0');
  return n < 65536 ? '\\u' + n.toString(16).padStart(4, '0') : '\\U' + n.toString(16).padStart(8, '0');
}
function ascii(v) { return Array.from(repr(v), (c) => c.codePointAt(0) < 128 ? c : escaped(c.codePointAt(0))).join(''); }
function halves(x, done, places) {
  // JavaScript rounds halves away from zero, Python to the even digit.
  if (!Number.isInteger(x * Math.pow(2, places + 1)) || x.toFixed(places + 1).slice(-1) !== '5') return done;
  const last = +done.slice(-1);
  if (last % 2 === 0) return done;
  const low = (x - 0.5 * Math.pow(10, -places)).toFixed(places);
  return low;
}
function fixed(x, places) {
  if (places > 100) unknown('a precision of more than 100');
  return halves(x, x.toFixed(places), places);
}
function exponent(x, places) {
  const long = x.toExponential(Math.min(100, places + 40)), at = long.indexOf('e');
  let [head, power] = x.toExponential(places).split('e');
  const kept = long.slice(0, at).replace('.', ''), rest = kept.slice(places + 1);
  if (/^50*$/.test(rest) && +kept[places] % 2 === 0) head = (kept.slice(0, 1) + (places ? '.' + kept.slice(1, places + 1) : ''));
  return [head, +power];
}
function grouped(s, sign, by) { return sign ? s.replace(new RegExp('\\B(?=(?:[0-9a-f]{' + by + '})+$)', 'g'), sign) : s; }
function format(v, given) {
  const spec = given === undefined ? '' : given;
  if (typeof spec !== 'string') fail('TypeError', 'format() argument 2 must be str, not ' + type(spec));
  if (spec === '') return str(v);
  if (typeof v !== 'string' && !isNum(v)) fail('TypeError', 'unsupported format string passed to ' + type(v) + '.__format__');
  const found = /^(?:([^])?([<>=^]))?([-+ ])?(z)?(#)?(0)?(\d+)?([,_])?(?:\.(\d+))?([a-zA-Z%])?$/u.exec(spec);
  if (!found) fail('ValueError', "Invalid format specifier '" + spec + "' for object of type '" + type(v) + "'");
  return typeof v === 'string' ? formatText(v, found) : formatNumber(v, found);
}
function formatText(v, found) {
  const [, fill, align, sign, z, alt, nought, width, comma, precision, kind] = found;
  if (kind !== undefined && kind !== 's') fail('ValueError', "Unknown format code '" + kind + "' for object of type 'str'");
  if (sign) fail('ValueError', (sign === ' ' ? 'Space' : 'Sign') + ' not allowed in string format specifier');
  if (alt || z || comma) fail('ValueError', 'Invalid format specifier for a str');
  if (align === '=') fail('ValueError', "'=' alignment not allowed in string format specifier");
  const kept = precision === undefined ? v : Array.from(v).slice(0, +precision).join('');
  return padded(kept, '', fill || (nought ? '0' : ' '), align || '<', +(width || 0));
}
function formatNumber(v, found) {
  const [, fill, align, sign, z, alt, nought, width, comma, precision, given] = found;
  const x = +v, kind = given || (Number.isInteger(x) ? 'd' : '');
  if (z) unknown('the format z');
  let body = 'sdbcoxX'.includes(kind || ' ') ? whole(v, kind, alt, comma, precision) : fraction(x, kind, precision, alt, comma);
  const before = (x < 0 ? '-' : sign === '+' || sign === ' ' ? sign : '') + body[0];
  body = grouped(body[1], comma, 'boxX'.includes(kind || ' ') ? 4 : 3) + body[2];
  const fills = fill || (nought ? '0' : ' '), aligned = align || (nought ? '=' : '>');
  if (fills === '0' && aligned === '=' && comma) {
    while ((before + body).length < +(width || 0)) {
      const more = body.split('.'), head = more[0].split(comma).join('');
      more[0] = grouped('0' + head, comma, 'boxX'.includes(kind || ' ') ? 4 : 3);
      body = more.join('.');
    }
  }
  return padded(body, before, fills, aligned, +(width || 0));
}
function whole(v, kind, alt, comma, precision) {
  if (kind === 's' || !isInt(v)) fail('ValueError', "Unknown format code '" + kind + "' for object of type '" + type(v) + "'");
  if (precision !== undefined) fail('ValueError', 'Precision not allowed in integer format specifier');
  if (kind === 'c') return ['', String.fromCodePoint(+v), ''];
  const a = Math.abs(+v), base = {b: 2, o: 8, x: 16, X: 16}[kind] || 10, body = a.toString(base);
  return [alt && base !== 10 ? '0' + kind : '', kind === 'X' ? body.toUpperCase() : body, ''];
}
function fraction(x, kind, precision, alt, comma) {
  if (!'eEfFgG%'.includes(kind || 'g')) fail('ValueError', "Unknown format code '" + kind + "' for object of type 'float'");
  if (!Number.isFinite(x)) unknown('the format of ' + number(x));
  const a = Math.abs(kind === '%' ? x * 100 : x), places = precision === undefined ? 6 : +precision;
  let done;
  if (kind === '' && precision === undefined) done = digits(a);
  else if (kind === 'f' || kind === 'F' || kind === '%') done = fixed(a, places);
  else if (kind === 'e' || kind === 'E') done = written(exponent(a, places));
  else done = general(a, places || 1, alt, kind === '');
  if (alt && !done.includes('.')) done = done.includes('e') ? done.replace('e', '.e') : done + '.';
  if (kind === 'E' || kind === 'G') done = done.toUpperCase();
  const at = done.search(/[.eE]/);
  return ['', at < 0 ? done : done.slice(0, at), (at < 0 ? '' : done.slice(at)) + (kind === '%' ? '%' : '')];
}
function written(pair) { return pair[0] + 'e' + (pair[1] < 0 ? '-' : '+') + String(Math.abs(pair[1])).padStart(2, '0'); }
function general(a, places, alt, short) {
  const [head, power] = exponent(a, places - 1), most = short ? places - 1 : places;
  if (a !== 0 && (power < -4 || power >= most)) return written([alt ? head : head.replace(/\.?0+$/, ''), power]);
  const done = fixed(a, Math.max(0, places - 1 - power));
  const bare = alt || !done.includes('.') ? done : done.replace(/\.?0+$/, '');
  return short && !bare.includes('.') ? bare + '.0' : bare;
}
function padded(body, before, fill, align, width) {
  const short = width - Array.from(before + body).length;
  if (short <= 0) return before + body;
  if (align === '<') return before + body + fill.repeat(short);
  if (align === '=') return before + fill.repeat(short) + body;
  const left = align === '>' ? short : Math.floor(short / 2);
  return fill.repeat(left) + before + body + fill.repeat(short - left);
}
function abs(v) { return isNum(v) ? Math.abs(+v) : fail('TypeError', "bad operand type for abs(): '" + type(v) + "'"); }
function any(v) {
  for (const item of iter(v)) if (truth(item)) return true;
  return false;
}
function all(v) {
  for (const item of iter(v)) if (!truth(item)) return false;
  return true;
}
function* enumerate(v, start) {
  let i = start === undefined ? 0 : start;
  if (!isInt(i)) fail('TypeError', "'" + type(i) + "' object cannot be interpreted as an integer");
  for (const item of iter(v)) yield tuple([i++, item]);
}
function* zip(strict, given) {
  const all = given.map((v) => iter(v)[Symbol.iterator]());
  while (all.length) {
    const done = [];
    for (const one of all) {
      const next = one.next();
      if (next.done) {
        if (strict && (done.length || all.slice(1).some((other) => !other.next().done))) fail('ValueError', 'zip() arguments are of different lengths');
        return;
      }
      done.push(next.value);
    }
    yield tuple(done);
  }
}
function* reversed(v) {
  const t = type(v);
  if (isNum(v) || v === null || t === 'set' || typeof v.next === 'function') fail('TypeError', "'" + t + "' object is not reversible");
  yield* items(v).reverse();
}
function sum(v, start) {
  let total = start === undefined ? 0 : start;
  if (typeof total === 'string') fail('TypeError', "sum() can't sum strings [use ''.join(seq) instead]");
  for (const item of iter(v)) total = add(total, item);
  return total;
}
function sorted(v, by, reverse) {
  const all = Array.from(iter(v), (item) => [by ? by(item) : item, item]);
  if (reverse !== undefined && !isInt(reverse)) fail('TypeError', "'" + type(reverse) + "' object cannot be interpreted as an integer");
  const back = reverse !== undefined && truth(reverse);
  if (back) all.reverse();
  all.sort((a, b) => lt(a[0], b[0]) ? -1 : lt(b[0], a[0]) ? 1 : 0);
  if (back) all.reverse();
  return all.map((pair) => pair[1]);
}
function extreme(name, given, by, other) {
  const sign = name === 'min' ? '<' : '>';
  let best, held;
  for (const item of given.length === 1 ? iter(given[0]) : given) {
    const k = by ? by(item) : item;
    if (held === undefined || lt(k, held, sign)) { held = k; best = item; }
  }
  if (held !== undefined) return best;
  return other === undefined ? fail('ValueError', name + '() arg is an empty sequence') : other;
}
function round(v, places) {
  if (!isNum(v)) fail('TypeError', 'type ' + type(v) + " doesn't define __round__ method");
  if (places !== undefined && places !== null && !isInt(places)) fail('TypeError', "'" + type(places) + "' object cannot be interpreted as an integer");
  const n = places === undefined || places === null ? 0 : +places, a = Math.abs(+v);
  if (isInt(v) && n >= 0) return +v;
  if (n > 100) return +v;
  if (n >= 0) return num(+((v < 0 ? '-' : '') + fixed(a, n)));
  const unit = Math.pow(10, -n), rest = a % unit, low = (a - rest) / unit;
  if (!Number.isFinite(unit)) return 0;
  const done = (rest * 2 > unit || (rest * 2 === unit && low % 2 === 1) ? low + 1 : low) * unit;
  return num(v < 0 ? 0 - done : done);
}
function int(v, base) {
  if (v === undefined) return 0;
  if (base !== undefined) return based(v, base);
  if (isNum(v)) return Number.isFinite(+v) ? Math.trunc(+v) + 0 : fail(v !== v ? 'ValueError' : 'OverflowError', 'cannot convert float ' + number(v) + ' to integer');
  if (typeof v !== 'string') fail('TypeError', "int() argument must be a string, a bytes-like object or a real number, not '" + type(v) + "'");
  const s = strip(v);
  if (!/^[-+]?\d+(?:_\d+)*$/.test(s)) fail('ValueError', 'invalid literal for int() with base 10: ' + repr(v));
  return num(+s.replace(/_/g, ''));
}
function based(v, base) {
  if (typeof v !== 'string') fail('TypeError', "int() can't convert non-string with explicit base");
  if (!isInt(base)) fail('TypeError', "'" + type(base) + "' object cannot be interpreted as an integer");
  if (+base !== 0 && (base < 2 || base > 36)) fail('ValueError', 'int() base must be >= 2 and <= 36, or 0');
  const found = /^([-+]?)(0[xX]_?|0[oO]_?|0[bB]_?)?([0-9a-zA-Z]+(?:_[0-9a-zA-Z]+)*)$/.exec(strip(v)), bad = () => fail('ValueError', 'invalid literal for int() with base ' + base + ': ' + repr(v));
  if (!found) bad();
  const of = {x: 16, o: 8, b: 2}[(found[2] || '')[1] === undefined ? '' : found[2][1].toLowerCase()];
  let body = found[3].replace(/_/g, ''), b = +base;
  if (of !== undefined) { if (b === 0 || b === of) b = of; else body = found[2].replace('_', '') + body; }
  else if (b === 0) { if (/^0+[1-9]/.test(body)) bad(); b = 10; }
  let done = 0;
  for (const c of body) {
    const n = parseInt(c, 36);
    if (!(n < b)) bad();
    done = num(done * b + n);
  }
  return found[1] === '-' ? 0 - done : done;
}
function float(v) {
  if (v === undefined) return 0;
  if (isNum(v)) return +v;
  if (typeof v !== 'string') fail('TypeError', "float() argument must be a string or a real number, not '" + type(v) + "'");
  const s = strip(v).toLowerCase();
  if (/^[-+]?(?:inf|infinity)$/.test(s)) return s[0] === '-' ? -Infinity : Infinity;
  if (/^[-+]?nan$/.test(s)) return NaN;
  if (!/^[-+]?(?:\d+(?:_\d+)*\.?(?:\d+(?:_\d+)*)?|\.\d+(?:_\d+)*)(?:e[-+]?\d+(?:_\d+)*)?$/.test(s)) fail('ValueError', 'could not convert string to float: ' + repr(v));
  return +s.replace(/_/g, '');
}
function ofText(v, name) {
  return typeof v === 'string' ? v : fail('TypeError', "descriptor '" + name + "' for 'str' objects doesn't apply to a '" + type(v) + "' object");
}
function owner(v, name) {
  const all = {list: ['copy', 'count', 'index'], tuple: ['count', 'index'], range: ['count', 'index'], dict: ['copy', 'get', 'items', 'keys', 'values']};
  const t = type(v), has = t === 'str' ? !['copy', 'get', 'items', 'keys', 'values'].includes(name) : all[t] && all[t].includes(name);
  return has ? v : lacks(v, name);
}
function text(v, name) { return typeof v === 'string' ? v : lacks(v, name); }
function argument(v, name) { return typeof v === 'string' ? v : fail('TypeError', name + ' must be str, not ' + type(v)); }
function copy(v) { return Array.isArray(v) ? v.slice() : type(v) === 'dict' ? dict(v) : lacks(v, 'copy'); }
function view(v, name) {
  if (type(v) !== 'dict') lacks(v, name);
  const of = {keys: (e) => e[0], values: (e) => e[1], items: (e) => tuple(e)}[name];
  return {type: 'dict_' + name, items: pairs(v).map((e) => of(e.slice()))};
}
function keys(v) { return view(v, 'keys'); }
function values(v) { return view(v, 'values'); }
function itemsOf(v) { return view(v, 'items'); }
function getOr(v, k, other) {
  if (type(v) !== 'dict') lacks(v, 'get');
  const e = v.kept[key(k)];
  return e ? e[1] : other === undefined ? null : other;
}
function window(n, from, to) {
  const clip = (i, none) => {
    if (i === undefined || i === null) return none;
    if (!isInt(i)) fail('TypeError', 'slice indices must be integers or None or have an __index__ method');
    return i < 0 ? Math.max(0, +i + n) : +i;
  };
  return [clip(from, 0), Math.min(n, clip(to, n))];
}
function seek(v, w, from, to, name, last) {
  const s = Array.from(text(v, name)), x = Array.from(argument(w, name)), [a, b] = window(s.length, from, to);
  const at = (i) => x.every((c, j) => s[i + j] === c);
  if (last) { for (let i = b - x.length; i >= a; i--) if (at(i)) return i; }
  else for (let i = a; i + x.length <= b; i++) if (at(i)) return i;
  return -1;
}
function find(v, w, from, to) { return seek(v, w, from, to, 'find', false); }
function rfind(v, w, from, to) { return seek(v, w, from, to, 'rfind', true); }
function index(v, w, from, to) {
  if (typeof v === 'string') {
    const at = seek(v, w, from, to, 'index', false);
    return at < 0 ? fail('ValueError', 'substring not found') : at;
  }
  const t = type(v);
  if (t !== 'list' && t !== 'tuple' && t !== 'range') lacks(v, 'index');
  const all = items(v), [a, b] = window(all.length, from, to);
  for (let i = a; i < b; i++) if (eq(all[i], w)) return i;
  return fail('ValueError', repr(w) + ' is not in ' + t);
}
function rindex(v, w, from, to) {
  const at = seek(v, w, from, to, 'rindex', true);
  return at < 0 ? fail('ValueError', 'substring not found') : at;
}
function count(v, w, from, to) {
  if (typeof v !== 'string') {
    if (!['list', 'tuple', 'range'].includes(type(v))) lacks(v, 'count');
    return items(v).filter((item) => eq(item, w)).length;
  }
  const s = Array.from(v), x = Array.from(argument(w, 'count')), [a, b] = window(s.length, from, to);
  if (!x.length) return a > s.length || b < a ? 0 : b - a + 1;
  let n = 0;
  for (let i = a; i + x.length <= b;) if (x.every((c, j) => s[i + j] === c)) { n++; i += x.length; } else i++;
  return n;
}
function edge(v, w, from, to, name) {
  const s = Array.from(text(v, name)), [a, b] = window(s.length, from, to), part = s.slice(a, Math.max(a, b)).join('');
  const all = type(w) === 'tuple' ? w.items : [w];
  return a <= s.length && all.some((one) => name === 'startswith' ? part.startsWith(argument(one, name)) : part.endsWith(argument(one, name)));
}
function startswith(v, w, from, to) { return edge(v, w, from, to, 'startswith'); }
function endswith(v, w, from, to) { return edge(v, w, from, to, 'endswith'); }
function blank(c) { return /[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]/.test(c); }
function trim(v, chars, name, left, right) {
  const s = Array.from(text(v, name)), given = chars === undefined || chars === null ? null : Array.from(argument(chars, name));
  const goes = (c) => given ? given.includes(c) : blank(c);
  let a = 0, b = s.length;
  if (left) while (a < b && goes(s[a])) a++;
  if (right) while (b > a && goes(s[b - 1])) b--;
  return s.slice(a, b).join('');
}
function strip(v, chars) { return trim(v, chars, 'strip', true, true); }
function lstrip(v, chars) { return trim(v, chars, 'lstrip', true, false); }
function rstrip(v, chars) { return trim(v, chars, 'rstrip', false, true); }
function upper(v) { return text(v, 'upper').toUpperCase(); }
function lower(v) { return text(v, 'lower').toLowerCase(); }
function casefold(v) { return text(v, 'casefold').toLowerCase().replace(/\u00df/g, 'ss'); }
function capitalize(v) {
  const s = Array.from(text(v, 'capitalize'));
  return s.slice(0, 1).join('').toUpperCase() + s.slice(1).join('').toLowerCase();
}
function title(v) {
  let after = false, done = '';
  for (const c of text(v, 'title')) {
    done += after ? c.toLowerCase() : c.toUpperCase();
    after = /\p{L}/u.test(c);
  }
  return done;
}
function swapcase(v) { return Array.from(text(v, 'swapcase'), (c) => c === c.toLowerCase() ? c.toUpperCase() : c.toLowerCase()).join(''); }
function matches(v, name, pattern) { return pattern.test(text(v, name)); }
function isascii(v) { return matches(v, 'isascii', /^[\x00-\x7f]*$/); }
function isalnum(v) { return matches(v, 'isalnum', /^[\p{L}\p{N}]+$/u); }
function isalpha(v) { return matches(v, 'isalpha', /^\p{L}+$/u); }
function isdecimal(v) { return matches(v, 'isdecimal', /^\p{Nd}+$/u); }
function isdigit(v) { return matches(v, 'isdigit', /^[\p{Nd}\u00b2\u00b3\u00b9\u2070\u2074-\u2079\u2080-\u2089]+$/u); }
function isnumeric(v) { return matches(v, 'isnumeric', /^\p{N}+$/u); }
function isspace(v) { return text(v, 'isspace') !== '' && Array.from(v).every(blank); }
function islower(v) { return text(v, 'islower') === v.toLowerCase() && v !== v.toUpperCase(); }
function isupper(v) { return text(v, 'isupper') === v.toUpperCase() && v !== v.toLowerCase(); }
function join(v, all) {
  const sep = text(v, 'join');
  return items(all).map((item, i) => typeof item === 'string' ? item : fail('TypeError', 'sequence item ' + i + ': expected str instance, ' + type(item) + ' found')).join(sep);
}
function justify(v, width, fill, name, align) {
  const s = text(v, name);
  if (!isInt(width)) fail('TypeError', "'" + type(width) + "' object cannot be interpreted as an integer");
  if (fill !== undefined && (typeof fill !== 'string' || Array.from(fill).length !== 1)) fail('TypeError', 'The fill character must be exactly one character long');
  return padded(s, '', fill === undefined ? ' ' : fill, align, +width);
}
function ljust(v, width, fill) { return justify(v, width, fill, 'ljust', '<'); }
function rjust(v, width, fill) { return justify(v, width, fill, 'rjust', '>'); }
function center(v, width, fill) {
  const short = +width - len(text(v, 'center')), odd = short > 0 && short % 2 === 1 && +width % 2 === 1;
  return justify(odd ? justify(v, len(v) + 1, fill, 'center', '>') : v, width, fill, 'center', '^');
}
function zfill(v, width) {
  const s = text(v, 'zfill');
  if (!isInt(width)) fail('TypeError', "'" + type(width) + "' object cannot be interpreted as an integer");
  const sign = /^[-+]/.test(s) ? s[0] : '';
  return padded(s.slice(sign.length), sign, '0', '=', +width);
}
function removeprefix(v, w) { return text(v, 'removeprefix').startsWith(argument(w, 'removeprefix')) ? v.slice(w.length) : v; }
function removesuffix(v, w) { return text(v, 'removesuffix').endsWith(argument(w, 'removesuffix')) && w ? v.slice(0, v.length - w.length) : v; }
function replace(v, old, other, most) {
  const s = text(v, 'replace');
  argument(old, 'replace() argument 1');
  argument(other, 'replace() argument 2');
  if (most !== undefined && !isInt(most)) fail('TypeError', "'" + type(most) + "' object cannot be interpreted as an integer");
  let left = most === undefined || most < 0 ? Infinity : +most;
  const pieces = old === '' ? [''].concat(Array.from(s), ['']) : s.split(old);
  let done = pieces[0];
  for (const piece of pieces.slice(1)) done += (left-- > 0 ? other : old) + piece;
  return done;
}
function separator(v) { return argument(v, 'the separator') === '' ? fail('ValueError', 'empty separator') : v; }
function partition(v, sep) {
  const s = text(v, 'partition'), at = s.indexOf(separator(sep));
  return tuple(at < 0 ? [s, '', ''] : [s.slice(0, at), sep, s.slice(at + sep.length)]);
}
function rpartition(v, sep) {
  const s = text(v, 'rpartition'), at = s.lastIndexOf(separator(sep));
  return tuple(at < 0 ? ['', '', s] : [s.slice(0, at), sep, s.slice(at + sep.length)]);
}
function most(v) {
  if (v === undefined) return Infinity;
  if (!isInt(v)) fail('TypeError', "'" + type(v) + "' object cannot be interpreted as an integer");
  return v < 0 ? Infinity : +v;
}
function split(v, sep, given) {
  const s = text(v, 'split'), n = most(given);
  if (sep === undefined || sep === null) return words(Array.from(s), n);
  const pieces = s.split(separator(sep));
  return pieces.length - 1 <= n ? pieces : pieces.slice(0, n).concat([pieces.slice(n).join(sep)]);
}
function words(s, n) {
  const done = [];
  for (let i = 0; ;) {
    while (i < s.length && blank(s[i])) i++;
    if (i >= s.length) return done;
    if (done.length >= n) { done.push(rstrip(s.slice(i).join(''))); return done; }
    let end = i;
    while (end < s.length && !blank(s[end])) end++;
    done.push(s.slice(i, end).join(''));
    i = end;
  }
}
function rsplit(v, sep, given) {
  const s = text(v, 'rsplit'), n = most(given);
  if (sep === undefined || sep === null) {
    return words(Array.from(s).reverse(), n).reverse().map((word) => Array.from(word).reverse().join(''));
  }
  const pieces = s.split(separator(sep)), cut = pieces.length - n;
  return cut <= 1 ? pieces : [pieces.slice(0, cut).join(sep)].concat(pieces.slice(cut));
}
function splitlines(v, keep) {
  const done = text(v, 'splitlines').match(/[^\n\r\v\f\x1c-\x1e\x85\u2028\u2029]*(?:\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029])|[^\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+$/g) || [];
  return keep !== undefined && truth(keep) ? done : done.map((line) => line.replace(/(?:\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029])$/, ''));
}
