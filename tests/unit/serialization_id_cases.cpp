// SPDX-License-Identifier: Apache-2.0
// Write serialization_id_cases.h with libstdc++'s own unordered_set and hash:
//   g++ -o gen serialization_id_cases.cpp && ./gen > serialization_id_cases.h
#include <cstdint>
#include <cstdio>
#include <string>
#include <unordered_set>

static uint64_t first_half(unsigned count)
{
	std::unordered_set<std::string> names;
	uint64_t seed = 0;

	names.insert("data.pkl");
	for (unsigned i = 0; i < count; i++)
		names.insert("data/" + std::to_string(i));
	names.insert("version");
	for (const std::string &name : names)
		seed ^= std::hash<std::string>()(name) + 0x9e3779b9 + (seed << 6) + (seed >> 2);
	return seed;
}

int main()
{
	const unsigned counts[] = { 0, 1, 10, 11, 12, 26, 27, 28, 29, 56, 57, 58, 124, 125, 126, 127, 254,
				    255, 256, 538, 539, 540, 541, 1107, 1108, 2355, 2356, 5000, 66003 };

	puts("/* SPDX-License-Identifier: Apache-2.0 */");
	puts("/* Written by serialization_id_cases.cpp: data.pkl, data/0 ... data/N-1, version */");
	for (unsigned count : counts)
		printf("{ %u, \"%020llu\" },\n", count, (unsigned long long)first_half(count));
}
