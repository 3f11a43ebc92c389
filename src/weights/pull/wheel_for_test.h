#pragma once
#include <zlib.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace pagoda::weights {

/// A zip archive of `members` (name, bytes), all stored or all deflated: the wheels of the tests.
inline std::string zip_of(const std::vector<std::pair<std::string, std::string>>& members, bool deflated) {
  std::string zip, directory;
  const auto put = [](std::string& out, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i));
  };
  for (const auto& [name, bytes] : members) {
    std::string packed = bytes;
    if (deflated) {
      z_stream z{};
      deflateInit2(&z, 6, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
      packed.resize(deflateBound(&z, bytes.size()));
      z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
      z.avail_in = static_cast<uInt>(bytes.size());
      z.next_out = reinterpret_cast<Bytef*>(packed.data());
      z.avail_out = static_cast<uInt>(packed.size());
      deflate(&z, Z_FINISH);
      packed.resize(z.total_out);
      deflateEnd(&z);
    }
    const auto crc = crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size()));
    std::string common;  // version needed .. extra length, shared by both headers
    put(common, 20, 2), put(common, 0, 2), put(common, deflated ? 8 : 0, 2), put(common, 0, 4);
    put(common, static_cast<uint32_t>(crc), 4), put(common, packed.size(), 4), put(common, bytes.size(), 4);
    put(common, name.size(), 2), put(common, 0, 2);
    put(directory, 0x02014b50, 4), put(directory, 20, 2);
    directory += common;
    put(directory, 0, 6), put(directory, 0, 4), put(directory, zip.size(), 4);
    directory += name;
    put(zip, 0x04034b50, 4);
    zip += common + name + packed;
  }
  const size_t start = zip.size();
  zip += directory;
  put(zip, 0x06054b50, 4), put(zip, 0, 4), put(zip, members.size(), 2), put(zip, members.size(), 2);
  put(zip, directory.size(), 4), put(zip, start, 4), put(zip, 0, 2);
  return zip;
}

inline void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

inline std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace pagoda::weights
