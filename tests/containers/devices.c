// SPDX-License-Identifier: MIT OR Apache-2.0
//
// devices: prints the names in /sys/class/infiniband, which only the shim may show.

#include <dirent.h>
#include <stdio.h>

int main(void)
{
	DIR *directory = opendir("/sys/class/infiniband");
	struct dirent *entry;

	if (!directory) {
		puts("none");
		return 0;
	}
	while ((entry = readdir(directory)))
		if (entry->d_name[0] != '.')
			puts(entry->d_name);
	return 0;
}
