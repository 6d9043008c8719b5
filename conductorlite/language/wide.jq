def __wide: type == "number" and (. > 9007199254740991 or . < -9007199254740991) and (tojson | test("^-?[0-9]+$"));
def __whole: type == "number" and (__wide or . == floor);
def __refused: error("jq does not calculate exactly with whole numbers beyond 2^53");

def __halves:
  tojson as $text | ($text | ltrimstr("-")) as $digits | (if $text == $digits then 1 else -1 end) as $sign | ($digits | length) as $count |
  if $count > 19 then __refused
  elif $count > 9 then [$sign * ($digits[:$count - 9] | tonumber), $sign * ($digits[$count - 9:] | tonumber)]
  else [0, .] end;
def __joined:
  (if .[1] >= 1000000000 then [.[0] + 1, .[1] - 1000000000] elif .[1] <= -1000000000 then [.[0] - 1, .[1] + 1000000000] else . end) |
  (if .[0] > 0 and .[1] < 0 then [.[0] - 1, .[1] + 1000000000] elif .[0] < 0 and .[1] > 0 then [.[0] + 1, .[1] - 1000000000] else . end) |
  if .[0] == 0 then .[1]
  else (if .[0] < 0 then "-" else "" end) + (.[0] | fabs | tostring) + ((.[1] | fabs | tostring) as $low | "000000000"[$low | length:] + $low) | tonumber
  end | if . >= 9223372036854775808 or . < -9223372036854775808 then __refused else . end;

def __plus($a; $b):
  if ($a | __wide or ($b | __wide)) and ($a | __whole) and ($b | __whole)
  then ($a | __halves) as $x | ($b | __halves) as $y | [$x[0] + $y[0], $x[1] + $y[1]] | __joined
  elif ($a | type) == "number" and ($b | type) == "number" and ($a | __wide or ($b | __wide)) then __refused
  else $a + $b end;
def __minus($a; $b):
  if ($b | type) == "number" and ($a | type) == "number" and ($a | __wide or ($b | __wide)) then __plus($a; -$b) else $a - $b end;
def __mod($a; $b):
  if ($a | __wide) and ($b | type) == "number" and $b == ($b | floor) and ($b | fabs) <= 1000000 and $b != 0
  then ($a | __halves) as $x | (($x[0] % $b) * (1000000000 % $b) + $x[1]) % $b
  elif ($a | __wide) or ($b | __wide) then __refused
  else $a % $b end;
def __times($a; $b): if ($a | __wide) or ($b | __wide) then (if $a == 1 then $b elif $b == 1 then $a else __refused end) else $a * $b end;
def __parts($a; $b): if ($a | __wide) or ($b | __wide) then (if $b == 1 then $a else __refused end) else $a / $b end;

def __floor: floor; def __ceil: ceil; def __round: round; def __trunc: trunc; def __fabs: fabs; def __length: length;
def floor: if __wide then . else __floor end;
def ceil: if __wide then . else __ceil end;
def round: if __wide then . else __round end;
def trunc: if __wide then . else __trunc end;
def fabs: if __wide then (if . < 0 then -. else . end) else __fabs end;
def length: if __wide then fabs else __length end;

def _plus(a; b): b as $b | a as $a | __plus($a; $b);
def _minus(a; b): b as $b | a as $a | __minus($a; $b);
def _multiply(a; b): b as $b | a as $a | __times($a; $b);
def _divide(a; b): b as $b | a as $a | __parts($a; $b);
def _mod(a; b): b as $b | a as $a | __mod($a; $b);
def add(f): reduce f as $item (null; . + $item);
def add: add(.[]);
