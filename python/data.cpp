// Data of a training run: arrays in memory, a Python function of the sample's number, files of tokens.
#include "launcher/data/dataset.h"
#include "launcher/data/order.h"
#include "python/arrays.h"

namespace lockstep::python {

namespace {
// Throws UserError for an int64 or float64 number that the field's 32 bits cannot represent.
void refuse_beyond(const std::string& field, const HostArray& array, int64_t elements_of_a_row) {
  const int64_t at = first_beyond(array);
  if (at < 0) return;
  const bool whole = dtype_of(array.dtype()) == DType::i64;
  throw UserError(
      str("[data] field \"", field, "\" has ",
          whole ? str(get_int(DType::i64, array.data(), at))
                : number_text(get_double(DType::f64, array.data(), at)),
          " in row ", at / elements_of_a_row, ", and ",
          whole ? str("integers are i32 here, ", INT32_MIN, " to ", INT32_MAX,
                      "; mend the value, or give the field as float32")
                : std::string("floats are f32 here, up to 3.4e38; scale the values, or clip them")));
}

// Arrays in memory by field name, one sample per row.
SampleData array_data(nb::dict arrays, bool shuffle, uint64_t seed) {
  struct Column {
    HostArray array;
    DType held, dtype;  // of the array, and of the field
    int64_t elements;   // of a row
  };
  auto columns = std::make_shared<std::vector<Column>>();
  SampleData out;
  int64_t rows = -1;
  for (auto [name, value] : arrays) {
    const std::string field = nb::cast<std::string>(name);
    HostArray array = host_array(field, value);
    Shape shape = shape_of(array);
    if (shape.empty())
      throw UserError(str("[data] field \"", field, "\" is one number, ",
                          shape_text(dtype_of(array.dtype()), shape),
                          "; give an array with a row for each sample"));
    if (shape[0] == 0) throw UserError(str("[data] field \"", field, "\" has no rows"));
    if (rows >= 0 && shape[0] != rows)
      throw UserError(str("[data] field \"", field, "\" has ", shape[0], " rows, and \"", out.fields[0].name,
                          "\" has ", rows));
    rows = shape[0];
    shape.erase(shape.begin());
    // NumPy's default dtypes are int64 and float64; labels, ids and weights have 32 bits here.
    const DType held = dtype_of(array.dtype());
    const DType dtype = held == DType::i64 ? DType::i32 : held == DType::f64 ? DType::f32 : held;
    if (dtype != held) refuse_beyond(field, array, numel(shape));
    out.fields.push_back({field, dtype, shape});
    columns->push_back({array, held, dtype, numel(shape)});
  }
  if (rows < 0) throw UserError("[data] there are no fields: arrays(x=..., y=...)");
  out.fill = [columns, rows, shuffle, seed, types = out.fields](int64_t i, const std::vector<void*>& fields) {
    const int64_t row = launcher::data::sequence_of(i, rows, shuffle, seed);
    for (size_t f = 0; f < fields.size(); ++f) {
      const Column& column = (*columns)[f];
      const auto bytes = static_cast<size_t>(column.elements) * size_of(column.held);
      copy_elements(types[f].name,
                    static_cast<const std::byte*>(column.array.data()) + static_cast<size_t>(row) * bytes,
                    column.held, fields[f], column.dtype, column.elements, {column.elements, row});
    }
  };
  out.rows = rows;
  out.contents = [columns, rows, shuffle, seed, types = out.fields] {
    std::vector<std::pair<std::string, std::string>> lines{
        {"rows", str(rows)}, {"order", shuffle ? str("shuffled by seed ", seed) : std::string("as given")}};
    for (size_t f = 0; f < types.size(); ++f)
      lines.push_back({str("field \"", types[f].name, "\""),
                       str(shape_text((*columns)[f].held, types[f].shape), " a row, fingerprint ",
                           fingerprint_of((*columns)[f].array))});
    return lines;
  };
  out.name = [rows, shuffle, seed](int64_t i) {
    return str("row ", launcher::data::sequence_of(i, rows, shuffle, seed), " of the arrays");
  };
  return out;
}

// The values of a sample in the order of the fields, from a dict, a tuple, or a single value for one field.
std::vector<nb::object> values_of(const nb::callable& sample, int64_t i, const nb::object& made,
                                  const FieldTypes& fields) {
  std::vector<nb::object> out;
  if (nb::hasattr(made, "keys")) {
    for (const auto& field : fields) {
      nb::str key(field.name.c_str());
      if (PySequence_Contains(made.ptr(), key.ptr()) != 1) break;
      out.emplace_back(made[key]);
    }
  } else if (fields.size() == 1 && !PyTuple_Check(made.ptr()) && !made.is_none()) {
    return {made};
  } else if (PySequence_Check(made.ptr()) && !PyUnicode_Check(made.ptr()) &&
             PySequence_Size(made.ptr()) == static_cast<Py_ssize_t>(fields.size())) {
    for (size_t f = 0; f < fields.size(); ++f)
      out.push_back(nb::steal(PySequence_GetItem(made.ptr(), static_cast<Py_ssize_t>(f))));
  }
  if (PyErr_Occurred()) throw nb::python_error();
  if (out.size() == fields.size()) return out;
  nb::list names;
  for (const auto& field : fields) names.append(field.name);
  asked("fields", "refuse_sample", sample, i, made, names);  // raises
  return {};
}

// A Python function of the sample's number.
SampleData function_data(nb::dict types, nb::callable sample) {
  SampleData out;
  out.fields = field_types(types);
  // Any thread may read samples, also after the call.
  out.fill = [sample = held(std::move(sample)), fields = out.fields](int64_t i,
                                                                     const std::vector<void*>& to) {
    nb::gil_scoped_acquire python;
    const std::vector<nb::object> values = values_of(*sample, i, (*sample)(i), fields);
    for (size_t f = 0; f < fields.size(); ++f) {
      HostArray array = host_array(fields[f].name, values[f]);
      try {
        check_array(fields[f].name, array, fields[f].shape, fields[f].dtype);
      } catch (const UserError& error) { throw UserError(str(error.what(), " (sample ", i, ")")); }
      copy_elements(fields[f].name, array.data(), dtype_of(array.dtype()), to[f], fields[f].dtype,
                    numel(fields[f].shape));
    }
  };
  return out;
}

// Files of token ids: fields ids and targets, i32 [context].
SampleData token_data(const std::string& path, int64_t context, int64_t vocab, const std::string& dtype,
                      bool shuffle, uint64_t seed) {
  auto data = std::make_shared<launcher::data::Dataset>(
      launcher::data::DataOptions{.kind = "tokens",
                                  .paths = {path},
                                  .dtype = dtype,
                                  .order = shuffle ? "shuffle" : "sequential",
                                  .vocab = vocab,
                                  .context = context,
                                  .seed = seed});
  SampleData out;
  out.fields = {{"ids", DType::i32, {context}}, {"targets", DType::i32, {context}}};
  out.fill = [data](int64_t i, const std::vector<void*>& to) {
    data->fill(i, 1, 0, 1, static_cast<int32_t*>(to[0]), static_cast<int32_t*>(to[1]));
  };
  return out;
}
}  // namespace

void bind_data(nb::module_& m) {
  nb::class_<SampleData>(m, "SampleData",
                         "Samples by number: their fields, and the function that fills them.")
      .def(
          "__init__",
          [](SampleData* self, nb::dict fields, nb::callable sample) {
            new (self) SampleData(function_data(fields, sample));
          },
          nb::arg("fields"), nb::arg("sample"),
          "fields: {\"x\": (f32, [20]), \"label\": (i32, [])}, a sample's dtypes and shapes; sample(i): its "
          "values, a dict or a tuple. It is a "
          "function of i alone, so that a resumed run and any number of ranks read the same.")
      .def_prop_ro("fields", [](const SampleData& data) { return dict_of(data.fields); })
      .def("__repr__", [](const SampleData& data) {
        return str("SampleData(", words_of(data.fields), data.rows > 0 ? str("; ", data.rows, " rows") : "",
                   ")");
      });
  m.def("_arrays", &array_data, nb::arg("arrays"), nb::arg("shuffle"), nb::arg("seed"));
  m.def("tokens", &token_data, nb::arg("path"), nb::arg("context"), nb::arg("vocab") = 65536,
        nb::arg("dtype") = "uint16", nb::arg("shuffle") = false, nb::arg("seed") = 0,
        "A file of token ids as samples of `ids` and `targets`, i32 [context]: raw, or with the 1024-byte "
        "header of magic 20240520.");
}

}  // namespace lockstep::python
