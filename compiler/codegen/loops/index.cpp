// Canonical forms of index expressions.
#include "compiler/codegen/loops/index.h"

#include <algorithm>
#include <numeric>

#include "core/base/error.h"

namespace lockstep::compiler::codegen {

Indexer::Indexer(int64_t rows, int64_t columns) {
  if (rows > 1) row_ = intern({.kind = Kind::row, .inside = {}, .low = 0, .high = rows - 1});
  if (columns > 1)
    column_ = intern({.kind = Kind::column, .inside = {}, .varies = true, .low = 0, .high = columns - 1});
}

Expr Indexer::intern(Atom atom) {
  for (size_t i = 0; i < atoms_.size(); ++i)
    if (atoms_[i].key() == atom.key()) return {{{static_cast<int>(i), 1}}, 0};
  if (atom.kind != Kind::column && atom.kind != Kind::item) atom.varies = varies_with_column(atom.inside);
  atoms_.push_back(std::move(atom));
  return {{{static_cast<int>(atoms_.size()) - 1, 1}}, 0};
}

int64_t Indexer::low(const Expr& a) const {
  int64_t out = a.constant;
  for (auto [id, k] : a.terms) out += k * (k > 0 ? atoms_[id].low : atoms_[id].high);
  return out;
}
int64_t Indexer::high(const Expr& a) const {
  int64_t out = a.constant;
  for (auto [id, k] : a.terms) out += k * (k > 0 ? atoms_[id].high : atoms_[id].low);
  return out;
}

// Applies n * (E / n) + E % n = E to all pairs with matching factors.
Expr Indexer::recombined(Expr a) {
  for (bool again = true; again;) {
    again = false;
    for (auto [id, k] : a.terms) {
      const Atom atom = atoms_[id];
      if (atom.kind != Kind::remainder) continue;
      Expr quotient = divide(atom.inside, atom.n);
      if (quotient.terms.size() != 1 || quotient.constant != 0 || quotient.terms.begin()->second != 1)
        continue;
      auto partner = a.terms.find(quotient.terms.begin()->first);
      if (partner == a.terms.end() || partner->second != k * atom.n) continue;
      const int64_t factor = k;
      a.terms.erase(partner);
      a.terms.erase(id);
      for (auto [inner, j] : atom.inside.terms)
        if ((a.terms[inner] += factor * j) == 0) a.terms.erase(inner);
      a.constant += factor * atom.inside.constant;
      again = true;
      break;
    }
  }
  return a;
}

Expr Indexer::add(const Expr& a, const Expr& b) {
  Expr out = a;
  for (auto [id, k] : b.terms)
    if ((out.terms[id] += k) == 0) out.terms.erase(id);
  out.constant += b.constant;
  return recombined(std::move(out));
}
Expr Indexer::scale(const Expr& a, int64_t factor) {
  if (factor == 0) return {};
  Expr out = a;
  for (auto& [id, k] : out.terms) k *= factor;
  out.constant *= factor;
  return out;
}
Expr Indexer::shift(const Expr& a, int64_t by) {
  Expr out = a;
  out.constant += by;
  return out;
}

namespace {
int64_t common_factor(const Expr& a, int64_t n) {
  int64_t g = std::gcd(n, a.constant);
  for (auto [id, k] : a.terms) g = std::gcd(g, k);
  return g;
}
Expr divided(const Expr& a, int64_t g) {
  Expr out = a;
  for (auto& [id, k] : out.terms) k /= g;
  out.constant /= g;
  return out;
}
// Splits a = n * whole + rest, coefficient by coefficient.
std::pair<Expr, Expr> parted(const Expr& a, int64_t n) {
  Expr whole, rest;
  for (auto [id, k] : a.terms) (k % n == 0 ? whole.terms[id] = k / n : rest.terms[id] = k);
  int64_t q = a.constant / n, m = a.constant % n;
  if (m < 0) m += n, --q;
  whole.constant = q;
  rest.constant = m;
  return {whole, rest};
}
}  // namespace

// Splits a = big + small, where big is a multiple of a factor of n, and small stays below that factor. Then a
// divided by n is big divided by n. Example: r * 384 + c divided by 768 is r divided by 2. Factor 1: there is
// no such split.
Indexer::Separated Indexer::separated(const Expr& a, int64_t n) const {
  Separated best;
  for (auto [unused, coefficient] : a.terms) {
    int64_t factor = std::gcd(n, coefficient);
    if (factor <= best.factor) continue;
    Expr big, small;
    for (auto [id, k] : a.terms) (k % factor == 0 ? big : small).terms[id] = k;
    small.constant = a.constant % factor;
    big.constant = a.constant - small.constant;
    if (a.constant >= 0 && low(small) >= 0 && high(small) < factor && low(big) >= 0)
      best = {big, small, factor};
  }
  return best;
}

Expr Indexer::divide(const Expr& a, int64_t n) {
  if (n == 1) return a;
  auto [whole, rest] = parted(a, n);
  if (low(rest) < 0) whole = {}, rest = a;
  if (low(rest) >= 0 && high(rest) < n) return whole;
  int64_t g = common_factor(rest, n);
  if (g > 1) return add(whole, divide(divided(rest, g), n / g));
  if (auto [big, small, factor] = separated(rest, n); factor > 1)
    return add(whole, divide(divided(big, factor), n / factor));
  if (rest.terms.size() == 1 && rest.constant == 0 && rest.terms.begin()->second == 1) {
    const Atom atom = atoms_[rest.terms.begin()->first];
    if (atom.kind == Kind::divide) return add(whole, divide(atom.inside, atom.n * n));
    if (atom.kind == Kind::remainder && atom.n % n == 0)
      return add(whole, remainder(divide(atom.inside, n), atom.n / n));
  }
  return add(
      whole,
      intern({.kind = Kind::divide, .inside = rest, .n = n, .low = low(rest) / n, .high = high(rest) / n}));
}

Expr Indexer::remainder(const Expr& a, int64_t n) {
  if (n == 1) return {};
  auto [whole, rest] = parted(a, n);
  if (low(rest) < 0) rest = a;
  if (low(rest) >= 0 && high(rest) < n) return rest;
  int64_t g = common_factor(rest, n);
  if (g > 1) return scale(remainder(divided(rest, g), n / g), g);
  if (auto [big, small, factor] = separated(rest, n); factor > 1)
    return add(scale(remainder(divided(big, factor), n / factor), factor), small);
  if (rest.terms.size() == 1 && rest.constant == 0 && rest.terms.begin()->second == 1) {
    const Atom atom = atoms_[rest.terms.begin()->first];
    if (atom.kind == Kind::remainder && atom.n % n == 0) return remainder(atom.inside, n);
  }
  return intern({.kind = Kind::remainder, .inside = rest, .n = n, .low = 0, .high = n - 1});
}

Expr Indexer::guard(const Expr& a, int64_t lo, int64_t hi) {
  if (low(a) >= lo && high(a) < hi) return shift(a, -lo);
  if (hi <= lo) return {};
  return intern({.kind = Kind::guard, .inside = a, .n = lo, .m = hi, .low = 0, .high = hi - lo - 1});
}

Expr Indexer::item(int id, int64_t rows, bool varies) {
  return intern({.kind = Kind::item,
                 .inside = {},
                 .item = id,
                 .varies = varies,
                 .low = 0,
                 .high = std::max<int64_t>(rows - 1, 0)});
}

Expr Indexer::flatten(const Index& index, const Shape& shape) {
  LS_CHECK(index.size() == shape.size(), "an index of ", index.size(), " dims into ", shape.size());
  auto strides = row_major_strides(shape);
  Expr out;
  for (size_t i = 0; i < shape.size(); ++i) out = add(out, scale(index[i], strides[i]));
  return out;
}
Index Indexer::unflatten(const Expr& flat, const Shape& shape) {
  auto strides = row_major_strides(shape);
  Index out(shape.size());
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] <= 1 || strides[i] <= 0) continue;
    Expr above = divide(flat, strides[i]);
    out[i] = high(above) < shape[i] ? above : remainder(above, shape[i]);
  }
  return out;
}

bool Indexer::varies_with_column(const Expr& a) const {
  return std::any_of(a.terms.begin(), a.terms.end(), [&](const auto& t) { return atoms_[t.first].varies; });
}
bool Indexer::varies_with_row(const Expr& a) const {
  return std::any_of(a.terms.begin(), a.terms.end(), [&](const auto& t) {
    const Atom& atom = atoms_[t.first];
    return atom.kind == Kind::row || varies_with_row(atom.inside);
  });
}
bool Indexer::divides_column(const Expr& a) const {
  return std::any_of(a.terms.begin(), a.terms.end(), [&](const auto& t) {
    const Atom& atom = atoms_[t.first];
    return atom.varies && atom.kind != Kind::column;
  });
}
std::vector<int> Indexer::items(const Expr& a) const {
  std::vector<int> out;
  for (auto [id, k] : a.terms) {
    const Atom& atom = atoms_[id];
    if (atom.kind == Kind::item) out.push_back(atom.item);
    for (int inner : items(atom.inside)) out.push_back(inner);
  }
  return out;
}

Lanes Indexer::lanes(const Expr& a) const {
  Lanes out{true, 0, a.constant};
  for (auto [id, k] : a.terms) {
    const Atom& atom = atoms_[id];
    if (!atom.varies) {
      out.multiple = std::gcd(out.multiple, k);
      continue;
    }
    if (atom.kind == Kind::item) return {false, 0, 1};
    if (atom.kind == Kind::column) {
      out.stride += k;
      out.multiple = std::gcd(out.multiple, k * kLanes);
      continue;
    }
    Lanes inside = lanes(atom.inside);
    if (!inside.regular) return {false, 0, 1};
    // A run of consecutive lanes that starts at a multiple of 16 stays within one period of n if 16 divides
    // n.
    bool aligned = inside.stride == 1 && inside.multiple % kLanes == 0 && atom.n % kLanes == 0;
    if (inside.stride != 0 && (!aligned || (atom.kind == Kind::guard && atom.m % kLanes != 0)))
      return {false, 0, 1};
    int64_t stride = atom.kind == Kind::divide ? 0 : inside.stride;
    int64_t multiple = atom.kind == Kind::divide ? 1 : std::gcd(inside.multiple, atom.n);
    out.stride += k * stride;
    out.multiple = std::gcd(out.multiple, k * multiple);
  }
  return out;
}

bool Indexer::adds_row(const Expr& a) const {
  return std::any_of(a.terms.begin(), a.terms.end(), [&](const auto& term) {
    const Atom& atom = atoms_[term.first];
    if (atom.kind == Kind::row) return term.second != 1 || a.terms.size() > 1 || a.constant != 0;
    return adds_row(atom.inside);
  });
}

std::string Indexer::text(const Expr& a, const IndexWords& words) const {
  std::string out;
  for (auto [id, k] : a.terms) {
    const Atom& atom = atoms_[id];
    auto divided = [&](const char* sign) {
      return str("(", words.number, ")((", words.natural, ")(", text(atom.inside, words), ")", sign, atom.n,
                 "u)");
    };
    std::string part;
    switch (atom.kind) {
      case Kind::row:
        part = "r";
        break;
      case Kind::column:
        part = words.column;
        break;
      case Kind::divide:
        part = divided(" / ");
        break;
      case Kind::remainder:
        part = divided(" % ");
        break;
      case Kind::guard:
        part = str(words.guard, "(", text(atom.inside, words), ", ", atom.n, ", ", atom.m, ")");
        break;
      case Kind::item:
        part = words.item(atom.item, atom.varies);
        break;
    }
    out += str(out.empty() ? "" : " + ", part, k == 1 ? "" : str(" * ", k));
  }
  if (out.empty() || a.constant != 0) out += str(out.empty() ? "" : " + ", a.constant);
  return out;
}

int64_t Indexer::extent(const Expr& a) const {
  int64_t out = std::max(high(a), -low(a));
  for (auto [id, k] : a.terms) {
    const Atom& atom = atoms_[id];
    if (atom.kind == Kind::divide || atom.kind == Kind::remainder || atom.kind == Kind::guard) {
      out = std::max(out, extent(atom.inside));
      if (atom.kind == Kind::guard) out = std::max({out, atom.n, atom.m});
    }
    out = std::max(out, std::abs(k) * std::max(atom.high, -atom.low));
  }
  return out;
}

}  // namespace lockstep::compiler::codegen
