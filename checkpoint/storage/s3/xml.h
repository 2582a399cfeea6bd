// XML answers of an object store as trees.
#pragma once

#include <boost/property_tree/ptree.hpp>
#include <string>

namespace lockstep::checkpoint::s3 {

// StorageError, naming `path`, for a text that is none.
boost::property_tree::ptree parse(const std::string& xml, const std::string& path);

}  // namespace lockstep::checkpoint::s3
