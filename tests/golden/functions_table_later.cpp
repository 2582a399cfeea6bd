// The calls of functions/make.py that stand at its end: images read between pixels, places counted.
#include "tests/golden/functions_table.h"

namespace lockstep::golden {

std::map<std::string, std::function<Tensors(const Tensors&)>> later() {
  std::map<std::string, std::function<Tensors(const Tensors&)>> table{
      {"softmin_0", [](const Tensors& x) -> Tensors { return {softmin(x[0], 0)}; }},
      {"softmin_-1", [](const Tensors& x) -> Tensors { return {softmin(x[0])}; }},
      {"embedding_bag_max",
       [](const Tensors& x) -> Tensors { return {embedding_bag(x[0], x[1], Bag::max, 0)}; }},
      {"bincount", [](const Tensors& x) -> Tensors { return {bincount(x[0], 6)}; }},
      {"histogram", [](const Tensors& x) -> Tensors { return {histogram(x[0], 5, -1.5, 1.51)}; }},
      {"searchsorted_0", [](const Tensors& x) -> Tensors { return {searchsorted(x[0], x[1])}; }},
      {"searchsorted_1", [](const Tensors& x) -> Tensors { return {searchsorted(x[0], x[1], true)}; }},
      {"searchsorted_i32", [](const Tensors& x) -> Tensors { return {searchsorted(x[0], x[1])}; }},
  };
  for (int quarters : {0, 1, 2, 3, -1})
    table[str("rot90_", quarters)] = [=](const Tensors& x) -> Tensors {
      return {rot90(x[0], quarters, 0, 2)};
    };
  const Shape sizes[] = {{6, 8}, {4, 2}, {5, 3}, {2, 7}};
  for (size_t i = 0; i < std::size(sizes); ++i)
    for (bool corners : {false, true})
      table[str("cubic_", i, "_", int{corners})] = [=, size = sizes[i]](const Tensors& x) -> Tensors {
        return {interpolate_cubic(x[0], size, corners)};
      };
  for (bool border : {false, true})
    for (bool corners : {false, true})
      table[str("grid_sample_", int{border}, "_", int{corners})] = [=](const Tensors& x) -> Tensors {
        return {grid_sample(x[0], x[1], border, corners)};
      };
  return table;
}

}  // namespace lockstep::golden
