// XML, by Boost's reader.
#include "checkpoint/storage/s3/xml.h"

#include <boost/property_tree/xml_parser.hpp>
#include <cerrno>
#include <sstream>

#include "checkpoint/storage/storage.h"

namespace lockstep::checkpoint::s3 {

boost::property_tree::ptree parse(const std::string& xml, const std::string& path) {
  boost::property_tree::ptree out;
  std::istringstream in(xml);
  try {
    boost::property_tree::read_xml(in, out);
  } catch (const boost::property_tree::xml_parser_error& error) {
    throw StorageError(str("cannot read what the store answers of ", path, ": ", error.message(), " at line ",
                           error.line(), "; is AWS_ENDPOINT_URL an S3 store?"),
                       path, EIO);
  }
  return out;
}

}  // namespace lockstep::checkpoint::s3
