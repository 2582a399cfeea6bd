// How far roundings carry through a graph: what another backend's result may differ by.
//
// A backend's kernel is taken to be backward stable: its result is the exact result of inputs that lie a few
// units in the last place from those it was given, rounded. So the graph is evaluated without any rounding,
// and three times more with every value that was rounded moved at random by that much: kUnits f32 units (a
// kernel sums and composes in f32), one unit of bf16 or f16 (which is computed in f32 and rounded once, to
// one of two neighbours). Half of a move is relative to the element, half to the mean of the tensor: small
// differences of large numbers are as wrong as the large ones. How far an output then lies from the one
// without roundings is how far roundings carry in this graph, whatever its depth and condition.
//
// A value that no rounding touched (`right` equals the unrounded one in all elements) is not moved, nor is an
// element that is zero: what is not continuous is asked of such values alone.
#pragma once

#include <string>
#include <vector>

#include "compiler/reference/host_tensor.h"
#include "core/ir/graph.h"

namespace lockstep::sweep {

struct Roundings {
  std::vector<compiler::HostTensor> right;  // the outputs, as the reference evaluator has them
  std::vector<double> allowed;              // per output: how far an element may lie from `right`; 0: equal
  std::vector<double> largest;              // per output: its largest element
  std::string undecided;  // not "": this output, of integers or bool, is another one when roundings move
};

// Of a differentiated graph on these inputs.
Roundings roundings(const Graph& graph, const std::vector<compiler::HostTensor>& inputs);

}  // namespace lockstep::sweep
