"""Numbers beside tensors: what the dtype holds is exact, beside NumPy, and what it does not hold is refused."""
import math
import operator
import os
import random
import unittest

import lockstep as ls
import numpy as np

session = ls.Session([])
DTYPES = {"i32": np.int32, "i64": np.int64, "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
          "f32": np.float32, "f64": np.float64}
ARITHMETIC = {"+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod}
BITS = {"&": operator.and_, "|": operator.or_, "^": operator.xor}
ORDER = {"==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
SEED = int(os.environ.get("LOCKSTEP_TEST_SEED", random.SystemRandom().randrange(1 << 32)))


def computed(function, *arrays):
    """What a traced function gives for these arrays, in their dtypes."""
    names = {np.dtype(kind): getattr(ls, name) for name, kind in DTYPES.items()} | {np.dtype(bool): ls.boolean}
    state = ls.State(session.mesh)
    state.materialize()
    return ls.forward(state, {f"x{i}": (names[a.dtype], a.shape) for i, a in enumerate(arrays)}, function)(*arrays)


def holds(dtype, number):
    """Whether an element of the dtype can be this number, up to a float's rounding: not to 0."""
    if dtype == "bool":
        return number in (0, 1)
    kind = DTYPES[dtype]
    if issubclass(kind, np.floating):
        with np.errstate(over="ignore", under="ignore"):
            return not math.isfinite(number) or number == 0 or bool(np.isfinite(kind(number)) and kind(number) != 0)
    return math.isfinite(number) and number == int(number) and np.iinfo(kind).min <= int(number) <= np.iinfo(kind).max


def plain(number):
    """For the left side: there NumPy's own scalars take the operator first."""
    return number.item() if isinstance(number, np.generic) else number


class Numbers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        print(f"LOCKSTEP_TEST_SEED={SEED}", flush=True)

    def setUp(self):
        self.random = random.Random(SEED)

    def integer(self):
        near = self.random.choice([0, 2**7, 2**8, 2**15, 2**16, 2**24, 2**31, 2**32, 2**53, 2**63, 2**64,
                                   2**self.random.randrange(70)])
        return self.random.choice([1, -1]) * near + self.random.randrange(-3, 4)

    def number(self):
        kind = self.random.randrange(8)
        if kind < 4:
            return self.integer()
        if kind == 4:
            return float(self.integer())
        if kind == 5:
            return self.random.choice([0.5, -0.5, 1e-300, 0.1, -0.0, 1e300, -1e300, 3.5e38, math.inf, -math.inf,
                                       math.nan])
        if kind == 6:
            return self.random.choice([np.float32(0.25), np.int64(-1), np.uint64(2**64 - 1), np.uint8(255), True,
                                       False])
        return self.random.uniform(-1, 1) * 2.0 ** self.random.randrange(-10, 70)

    def elements(self, dtype, count):
        kind = DTYPES[dtype]
        if issubclass(kind, np.floating):
            some = [self.random.choice([0.0, -0.0, 0.1, 1.0, math.inf, -math.inf, math.nan, 3.5])
                    if self.random.random() < 0.2 else
                    self.random.uniform(-1, 1) * 2.0 ** self.random.randrange(-30, 30) for _ in range(count)]
        else:
            low, high = int(np.iinfo(kind).min), int(np.iinfo(kind).max)
            some = [self.random.choice([low, high, 0, low + 1, high - 1, 1, high // 2]) if self.random.random() < 0.4
                    else
                    self.random.randrange(low, high + 1) for _ in range(count)]
        return np.array(some, kind)

    def test_numbers_that_the_dtype_holds_are_exact(self):
        """In all more than 10^5 pairs of a number and an element, one function a dtype."""
        pairs = 0
        for dtype, kind in DTYPES.items():
            x, floats = self.elements(dtype, 500), issubclass(kind, np.floating)
            numbers = []
            while len(numbers) < 3:
                n = self.number()
                if holds(dtype, n) and n == n:
                    numbers.append(n)
            cases = []
            for n in numbers:
                for name, of in (ARITHMETIC | ORDER | ({"/": operator.truediv} if floats else BITS)).items():
                    cases.append((f"x {name} {n!r}", of, n, False))
                    cases.append((f"{n!r} {name} x", of, n, True))
            if not floats:
                by = self.random.randrange(8 * np.dtype(kind).itemsize)
                cases += [(f"x << {by}", operator.lshift, by, False), (f"x >> {by}", operator.rshift, by, False)]

            def function(x):
                return ls.stack([(of(plain(n), x) if turned else of(x, n)).to(getattr(ls, dtype)) for _, of, n,
                                 turned in cases])

            got = computed(function, x)
            for (words, of, n, turned), mine in zip(cases, got):
                with np.errstate(all="ignore"):
                    want = (of(kind(n), x) if turned else of(x, kind(n))).astype(kind)
                    # by a constant: to a unit in the last place
                    if "/" in words and "//" not in words and dtype == "f32":
                        np.testing.assert_array_max_ulp(mine, want, 1)
                        continue
                np.testing.assert_array_equal(mine, want, f"{dtype}: {words}, seed {SEED}")
                pairs += len(x)
        self.assertGreater(pairs, 100_000)

    def test_numbers_that_the_dtype_does_not_hold_are_refused(self):
        """20,000 numbers beside tensors of every dtype: each is refused or traced, as the dtype holds it."""
        refused = [0]

        def function(x):
            tensors = {name: ls.zeros(x, [2], getattr(ls, name))
                       for name in DTYPES} | {"bool": ls.zeros(x, [2], ls.boolean)}
            mask = tensors["bool"]
            for _ in range(20_000):
                dtype, n = self.random.choice(list(tensors)), self.number()
                t, left = tensors[dtype], plain(n)
                whole = dtype != "bool" and not issubclass(DTYPES[dtype], np.floating)
                ways = [lambda: t == n, lambda: left != t, lambda: ls.full_like(t, n),
                        lambda: ls.full(x, [3], n, t.dtype), lambda: t.masked_fill(mask, n),
                        lambda: ls.pad(t, [1], [0], n), lambda: ls.constant(x, [0, n], t.dtype)]
                if dtype != "bool":
                    ways += [lambda: t + n, lambda: left - t, lambda: t * n, lambda: t % n, lambda: left % t,
                             lambda: t // n, lambda: left // t, lambda: t < n, lambda: t >= n,
                             lambda: ls.scatter(t, 0, tensors["i32"], n)]
                    if n == n:
                        ways.append(lambda: ls.clamp(t, n, n))
                if whole:
                    ways += [lambda: t & n, lambda: left | t, lambda: t ^ n, lambda: t << n, lambda: t >> n]
                way = self.random.choice(ways)
                if holds(dtype, n):
                    way()
                    continue
                with self.assertRaisesRegex(ls.UserError, rf"numbers_test.py:\d+: .*(with {dtype}|as {dtype})",
                                            msg=f"{dtype}, {n!r}, seed {SEED}"):
                    way()
                refused[0] += 1
            return x

        computed(function, np.zeros(2, np.float32))
        self.assertGreater(refused[0], 4_000)

    def test_words_name_the_conversion(self):
        for function, words in (
            (lambda x: x * 0.5, r"\[mul\] numbers_test.py:\d+: 0.5 with i32\[3\]: i32 holds only whole numbers; "
                                r"convert the tensor: x.to\(f32\) in Python"),
            (lambda x: x >= 0.5, r"\[ge\] .*0.5 with i32\[3\]"),
            (lambda x: x + 2**40, r"1099511627776 with i32\[3\]: i32 holds -2147483648 to 2147483647; convert the "
                                  r"tensor: x.to\(i64\)"),
            (lambda x: x.to(ls.u8) + 300, r"300 with u8\[3\]: u8 holds 0 to 255"),
            (lambda x: x.to(ls.u8) - 127.5, r"127.5 with u8\[3\]"),
            (lambda x: x.to(ls.u8) / 255, r"\[div\] .*u8\[3\] and a number have a quotient with a "
                                          r"fraction.*x.to\(f32\) / 255, .* x // 255"),
            (lambda x: 1 / x, r"\[div\] .*i32\[3\] and a number have a quotient with a fraction"),
            (lambda x: x + (2**63 + 1), r"9223372036854775809 with i32\[3\]"),
            (lambda x: x.to(ls.i64) + 2**63, r"9223372036854775808 with i64\[3\]: i64 holds .*x.to\(u64\)"),
            (lambda x: x.to(ls.i64) + (-2**63 - 1), r"with i64\[3\]: i64 holds"),
            (lambda x: x.to(ls.u64) + 2**64, r"with u64\[3\]: u64 holds 0 to 18446744073709551615"),
            (lambda x: ls.full(x, [2], math.nan, ls.i32),
             r"\[full\] .*NaN as i32: i32 holds only whole numbers; take a dtype that does, as f32"),
            (lambda x: x.masked_fill(x == 0, -math.inf), r"\[masked_fill\] .*-inf with i32\[3\]"),
            (lambda x: ls.randint(x, [3], 0, 2**32), r"\[randint\] .*4294967295 as i32"),
            (lambda x: x.to(ls.f16) * 1e-9, r"1e-09 with f16\[3\]: it becomes 0 in f16, whose least number beyond 0 "
                                            r"is 5.9604645e-08; convert the tensor: x.to\(f32\)"),
            (lambda x: x.to(ls.f32) * 1e300, r"1e\+300 with f32\[3\]: it is beyond f32, whose largest number is "
                                             r"3.4028235e\+38"),
        ):
            with self.assertRaisesRegex(ls.UserError, words):
                computed(function, np.int32([0, 1, 2]))

    def test_unsigned_numbers_of_fields_are_exact_or_refused(self):
        state = ls.State(session.mesh)
        state.materialize()
        for name, kind in DTYPES.items():
            if name.startswith("f"):
                continue
            one = ls.forward(state, {"x": (getattr(ls, name), [3, 2])}, lambda x: x)
            for number in (0, 200, 2**31, 2**63 - 1, 2**63, 2**64 - 5, 2**64 - 1):
                array = np.uint64([[1, 2], [3, 4], [5, number]])
                if holds(name, number):
                    np.testing.assert_array_equal(one(array), array.astype(kind))
                    continue
                low, high = np.iinfo(kind).min, np.iinfo(kind).max
                with self.assertRaises(ls.UserError) as refused:
                    one(array)
                self.assertEqual(str(refused.exception), f'[data] field "x" has {number} (u64) in row 2, and the step '
                                                         f'reads {name}, {low} to {high}')

    def test_whole_numbers_wrap_within_one_expression(self):
        """A compiler may take x + 1 > x for true of C's signed integers; here it is what NumPy says."""
        functions = [lambda x: x + 1 > x, lambda x: x - 1 < x, lambda x: x * 2 // 2, lambda x: -x < 0,
                     lambda x: abs(x) >= 0, lambda x: abs(x * 3) < x, lambda x: (x + 5) * 2 - 10 == x * 2]
        for like in (np.int32, np.int64):
            most = np.iinfo(like).max
            x = np.array([most, most - 1, most // 2 + 1, 7, 0, -1, -most, -most - 1] * 3, like)
            for at, function in enumerate(functions):
                with self.subTest(dtype=like.__name__, function=at), np.errstate(over="ignore"):
                    np.testing.assert_array_equal(computed(function, x), function(x))

    def test_extremes(self):
        low, high = -2**31, 2**31 - 1
        a, b = np.int32([high, high, low, low, 5, 100, low]), np.int32([-2, low, high, 3, 0, -7, -1])
        np.testing.assert_array_equal(computed(lambda a, b: a // b, a, b), [-2**30, -1, -2, -715827883, 0, -15, low])
        np.testing.assert_array_equal(computed(lambda a, b: a % b, a, b), [-1, -1, high - 1, 1, 0, -5, 0])
        f, g = np.float32([1, 6, -3.5, 3.5, -0.0, 1]), np.float32([0.1, 0.1, np.inf, np.inf, 2, 0])
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(computed(lambda a, b: a // b, f, g), f // g)
        self.assertEqual(computed(lambda a, b: ls.arange(a, 2**53 + 1, 2**53 + 4, dtype=ls.i64), a, b).tolist(),
                         [2**53 + 1, 2**53 + 2, 2**53 + 3])
        self.assertEqual(computed(lambda a, b: ls.full(a, [1], 2**64 - 1, ls.u64), a, b).tolist(), [2**64 - 1])


if __name__ == "__main__":
    unittest.main()
